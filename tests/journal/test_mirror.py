"""What the prover does is in the database: rows, log, counters; and the rows are the fold of the log (I17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.pipeline.sources import JobInfo
from prover.stack.roles import OWNER
from prover.states import Admin, Holding, Job
from tests.journal.helpers import PROOF, assert_fold_equals_tables, running, submit_one
from tests.postgres import Database

pytestmark = pytest.mark.postgres


def test_a_job_from_submission_to_delivery(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=3)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        assert claimed.info.id == job and claimed.request == b"request" and claimed.info.submitted_by == "alice"
        prover.prove(claimed)
        prover.tracker.holding("key:window-post", Holding.LOADING, {"name": "window-post", "bytes": 5})
        prover.tracker.holding("key:window-post", Holding.READY, {"progress": 1.0})
        prover.tracker.set_admin(prover.workers[0], Admin.PAUSED, by="bob")
        prover.journal.sample({"queue_depth": 4})
        assert prover.journal.flush()
        state = assert_fold_equals_tables(database)
        assert state.ended == {"window-post done": 1}
    with database.connect(OWNER) as owner:
        row = owner.execute(
            "SELECT state, partitions_done, session_id::text, lease_epoch, started_at < ended_at, timings, local_keys"
            " FROM job WHERE id = %s", [job],
        ).fetchone()  # fmt: skip
        assert row == (Job.DONE, 3, prover.session, 1, True, {"total_ms": 5}, True)
        assert owner.execute("SELECT proof FROM delivery WHERE job_id = %s", [job]).fetchone() == (PROOF * 3,)
        assert owner.execute("SELECT partition, proof FROM proof ORDER BY 1").fetchall() == [
            (n, PROOF) for n in range(3)
        ]
        worker = owner.execute(
            "SELECT admin, admin_by, display_id, prover, device_id FROM worker ORDER BY id"
        ).fetchone()
        assert worker == ("paused", "bob", 0, "prover-a", "prover-a/0")
        assert owner.execute("SELECT gauges FROM sample").fetchall() == [({"queue_depth": 4},)]
        assert owner.execute("SELECT count(*) FROM anomaly").fetchone() == (0,)


def test_refused_moves_are_anomalies(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover:
        assert not prover.tracker.job_loading("11111111-1111-1111-1111-111111111111")
        assert not prover.tracker.worker_online(prover.workers[0])
        prover.journal.flush()
        assert_fold_equals_tables(database)
    with database.connect(OWNER) as owner:
        rows = owner.execute("SELECT number, code, entity, new FROM anomaly ORDER BY number").fetchall()
    assert rows == [(1, "illegal_move", "job", "loading"), (2, "illegal_move", "worker", "online")]


@pytest.mark.parametrize(
    "text", ["nul \0 here", "half a pair \ud800", "tab\tnew\nline\\N\\.", "<script>", "x" * 10_000, "日本"]
)
def test_hostile_text_is_stored_and_stops_nothing(database: Database, tmp_path: Path, text: str) -> None:
    submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        prover.tracker.job_loading(claimed.info.id)
        prover.tracker.job_completed(claimed.info.id, ValueError(text), {"gauge": float("nan")})
        assert prover.journal.flush()
        assert prover.journal.healthy
        assert_fold_equals_tables(database)
    with database.connect(OWNER) as owner:
        (message,) = owner.execute("SELECT error_message FROM job").fetchone()
        assert message.startswith("ValueError: ") and message.endswith(text[-3:].replace("\ud800", "\ufffd"))


def test_a_record_that_the_database_refuses_leaves_a_mark_and_stops_nothing(database: Database, tmp_path: Path) -> None:
    """No UUID: such a record cannot be stored, but its number is taken, and everything else goes on."""
    submit_one(database)
    with running(database, tmp_path) as prover:
        prover.tracker.register_job(JobInfo("no uuid", "window-post"))
        (claimed,) = prover.take()
        prover.prove(claimed)
        assert prover.journal.flush()
        assert prover.journal.healthy
        assert_fold_equals_tables(database)
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT count(*) FROM transition WHERE reason = 'record_refused'").fetchone() == (1,)
        assert owner.execute("SELECT state FROM job").fetchall() == [("done",)]
