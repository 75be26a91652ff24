"""`cuzk status`: the original's shape, and the truth about a prover that a real journal wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from prover.commands.exits import Exit
from prover.pipeline.attempts import AttemptKey
from prover.stack.roles import DAEMON, OWNER, SITE
from prover.states import ATTEMPT_ENDS, Attempt, Entity, Holding
from prover.status import original_word
from tests.journal.helpers import Prover, running, submit
from tests.postgres import Database

from .running import cuzk

SHAPE = {
    "": "uptime_secs memory synthesis pipelines gpu_workers allocations counters buffers",
    "memory": "total_bytes used_bytes available_bytes",
    "synthesis": "max_concurrent active",
    "allocations": "srs pce",
    "counters": "total_completed total_failed completed_by_kind failed_by_kind queue_depth",
    "buffers": "synth_in_flight provers_in_flight aux_in_flight shells_in_flight pending_handles",
    "pipelines": "job_id proof_kind started_secs_ago total_partitions partitions_done partitions",
    "pipelines.partitions": "index state synth_ms gpu_ms",
    "gpu_workers": "worker_id gpu_ordinal state current_job current_partition busy_secs",
    "allocations.srs": "circuit_id bytes last_used_secs_ago evictable",
}


@pytest.mark.parametrize(
    ("word", "states"),
    [
        ("pending", ["", "pending", "reserved"]),
        ("synthesizing", ["synthesizing"]),
        ("synth_done", ["ready"]),
        ("gpu", ["claimed", "device_wait", "device", "finalizing", "finishing"]),
        ("done", ["done"]),
        ("failed", ["failed", "lost", "cancelled", "skipped"]),
    ],
)
def test_the_original_words_cover_every_state(word: str, states: list[str]) -> None:
    assert {original_word(state) for state in states} == {word}
    assert set(states) <= set(Attempt)


@pytest.fixture
def prover(database: Database, tmp_path: Path) -> Iterator[Prover]:
    """W0 proves P6 of a job of P5 to P7 and finalizes P5; P7 is being synthesised; one job is done already."""
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        submit(web, "finished")
        prover.prove(prover.take()[0])
        submit(web, "deadline-1", b"open", partitions=3, partition_index=5)
        (job,) = prover.take()
        submit(web, "waiting", b"later")
        tracker, name = prover.tracker, job.info.id
        key_detail = {"name": "window-post 2KiB", "bytes": 123, "device": 0}
        assert tracker.holding("key:window-post 2KiB@0", Holding.LOADING, {})
        assert tracker.holding("key:window-post 2KiB@0", Holding.READY, key_detail)
        assert tracker.job_loading(name)
        assert tracker.job_running(name)
        for partition in range(3):
            key = tracker.new_attempt(name, partition)
            assert key is not None
            assert tracker.reserved(key)
            assert tracker.partition_synth_start(key)
            if partition < 2:
                assert tracker.partition_synth_end(key)
                assert tracker.partition_gpu_start(key, prover.workers[0])
                assert tracker.device_wait(key)
                assert tracker.device_start(key)
            if partition == 0:
                assert tracker.handoff(key)
        assert prover.journal.flush()
        yield prover


def status(database: Database, *arguments: str) -> CompletedProcess[str]:
    return cuzk("status", *arguments, env=os.environ | {"DATABASE_URL": database.url(DAEMON)})


def at(found: Any, path: str) -> list[dict[str, Any]]:
    """All objects at a path."""
    level = [found]
    for name in filter(None, path.split(".")):
        level = [item for each in level for item in (each[name] if isinstance(each[name], list) else [each[name]])]
    return level


@pytest.mark.postgres
def test_json_has_the_original_shape(prover: Prover, database: Database) -> None:
    found = json.loads(status(database, "--json").stdout)
    for path, names in SHAPE.items():
        objects = at(found, path)
        assert objects, path
        assert all(set(names.split()) <= set(each) for each in objects), path


@pytest.mark.postgres
def test_json_tells_the_truth(prover: Prover, database: Database) -> None:
    found = json.loads(status(database, "--json", "--prover", "prover-a").stdout)
    (job,) = found["pipelines"]
    assert (job["job_id"], job["proof_kind"], job["total_partitions"], job["partitions_done"]) == (
        "deadline-1", "window-post", 3, 0,
    )  # fmt: skip
    assert [p["state"] for p in job["partitions"]] == ["gpu", "gpu", "synthesizing"]
    assert [p["phase"] for p in job["partitions"]] == ["finalizing", "device", "synthesizing"]
    assert [p["gpu_ms"] is None for p in job["partitions"]] == [False, False, True]
    busy, idle = found["gpu_workers"]
    assert (busy["worker_id"], busy["state"], busy["current_job"], busy["current_partition"]) == (
        0,
        "proving",
        "deadline-1",
        1,
    )
    assert [len(busy["finalizing"]), busy["busy_secs"] >= 0] == [1, True]
    assert (idle["worker_id"], idle["state"], idle["current_job"], idle["busy_secs"]) == (1, "idle", None, None)
    assert (job["partition_index"], busy["partition_index"], idle["partition_index"]) == (5, 5, None)
    assert found["counters"] == {
        "total_completed": 1,
        "completed_by_kind": {"window-post": 1},
        "total_failed": 0,
        "failed_by_kind": {},
        "queue_depth": 1,
    }
    assert found["allocations"]["srs"][0]["bytes"] == 123
    assert found["buffers"]["pending_handles"] == 1
    assert found["heartbeat_age_secs"] < 12


@pytest.mark.postgres
def test_a_late_proof_counts_as_done(prover: Prover, database: Database) -> None:
    for key, view in prover.tracker.snapshot().views[Entity.ATTEMPT].items():
        if view.partition in (1, 2) and view.state not in ATTEMPT_ENDS:
            assert view.job is not None
            assert prover.tracker.partition_skipped(AttemptKey(view.job, view.partition), "result_arrived"), key
    assert prover.journal.flush()
    (shown,) = json.loads(status(database, "--json").stdout)["pipelines"]
    assert [p["state"] for p in shown["partitions"]] == ["gpu", "done", "done"]


@pytest.mark.postgres
def test_for_people(prover: Prover, database: Database) -> None:
    text = status(database).stdout
    assert "prover prover-a: online, last heartbeat" in text
    assert "W0 on GPU 0: proving P6 of deadline-1" in text
    assert "W1 on GPU 0: idle" in text
    assert "window-post deadline-1: running, 0/3 partitions" in text
    assert "queued 1, completed 1, failed 0" in text


@pytest.mark.postgres
def test_a_prover_without_heartbeat_has_lost_contact(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path):
        pass
    with database.connect(OWNER) as owner:
        owner.execute("UPDATE session SET state = 'online', heartbeat_at = now() - interval '1 minute' WHERE pid > 0")
        assert owner.execute(
            "SELECT count(*) FROM session WHERE state = 'online' AND prover = 'prover-a'"
        ).fetchone() == (1,)
    run = status(database)
    assert "prover-a has lost contact" in run.stderr


@pytest.mark.postgres
def test_nobody_and_somebody_unknown(database: Database) -> None:
    assert status(database).returncode == Exit.REFUSED
    run = status(database, "--prover", "x")
    assert run.returncode == Exit.BAD_INPUT
    assert "[prover_unknown]" in run.stderr


@pytest.mark.postgres
def test_no_database() -> None:
    run = cuzk("status", "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert run.returncode == Exit.UNAVAILABLE
    assert "[database_away]" in run.stderr
