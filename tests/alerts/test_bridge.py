"""A watched daemon in our history: what is certain and no more, phantom idles named, whatever it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from django.db import connections
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_web.alerts.evaluation import LOCK, evaluate
from cuzk_web.bridge import fetch
from cuzk_web.bridge.fetch import Daemon, DaemonUnreachable
from cuzk_web.bridge.status import MOST_BYTES, StatusInvalid, parse
from cuzk_web.bridge.store import NameInvalid, WatchedTwice
from cuzk_web.bridge.watch import Bridge
from cuzk_web.live import snapshot
from prover.stack.roles import SITE
from prover.states import Entity, Transition, fold
from tests.postgres import ROOT, Database

from .daemon import Original, idle, original, pipeline, proving, status

pytestmark = pytest.mark.postgres

Owner = psycopg.Connection[Any]


@pytest.fixture
def daemon() -> Iterator[Original]:
    with original() as made:
        yield made


@pytest.fixture
def bridge(daemon: Original, site: Database) -> Iterator[Bridge]:
    made = Bridge(Daemon(daemon.url), "rust-1")
    yield made
    made.close()


def see(bridge: Bridge, daemon: Original, answer: Any) -> None:
    daemon.answer = answer
    bridge.look()


def attempts(owner: Owner, job: str = "j") -> str:
    """The states of a job's newest attempts, with the workers of those that have one."""
    rows = owner.execute(
        "SELECT DISTINCT ON (partition) partition, a.state, replace(worker_id, 'rust-1/', '') FROM attempt a"
        " JOIN job j ON j.id = job_id WHERE request_id = %s ORDER BY partition, attempt_no DESC", [f"rust-1/{job}"],
    ).fetchall()  # fmt: skip
    return " ".join(f"{state}@{worker}" if worker else state for _, state, worker in rows)


def job(owner: Owner, name: str = "j") -> tuple[Any, ...] | None:
    return owner.execute(
        "SELECT state, error_code, partitions_done FROM job WHERE request_id = %s", [f"rust-1/{name}"]
    ).fetchone()


def odd(owner: Owner) -> list[tuple[str, str]]:
    return owner.execute("SELECT code, detail ->> 'text' FROM anomaly ORDER BY id").fetchall()


def check_fold(owner: Owner) -> None:
    """The rows are the fold of the log, as everywhere."""
    rows = owner.execute(
        "SELECT session_id::text, seq, to_us(at), mono_ns, entity, entity_id, old, new, job::text, partition,"
        " attempt_no, worker, reason, detail FROM transition ORDER BY at, seq"
    ).fetchall()
    state = fold(Transition.from_row(row) for row in rows)
    for entity, key, now, times, detail in owner.execute("SELECT entity, id, state, times, detail FROM mirror"):
        view = state.get(Entity(entity), key)
        assert (view.state, view.times) == (now, times), (entity, key)
        assert {**detail, "source": "rust-1"} == {**view.detail, "source": "rust-1"}, (entity, key)


def test_a_job_from_its_first_sight_to_its_end(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "psrp", 0)]))
    assert attempts(owner) == "pending synthesizing ready pending" and job(owner) == ("running", None, 0)
    see(bridge, daemon, status(2, [pipeline("j", "ssgr", 1)], [idle(0), proving(1, "j", 2)]))
    assert attempts(owner) == "synthesizing synthesizing claimed@0/1 ready"
    see(bridge, daemon, status(3, [pipeline("j", "srgg", 2)], [idle(0), proving(1, "j", 3)]))
    assert attempts(owner) == "synthesizing ready finalizing@0/1 claimed@0/1"
    see(bridge, daemon, status(4, [pipeline("j", "rddd", 3)]))
    assert attempts(owner) == "ready done@-1/0 done@0/1 done@0/1"  # who did the second, nobody saw
    see(bridge, daemon, status(5, [pipeline("j", "dddd", 4)]))
    assert job(owner) == ("assembling", None, 4)
    see(bridge, daemon, status(6))
    assert job(owner) == ("done", None, 4) and odd(owner) == []
    check_fold(owner)
    assert owner.execute("SELECT kind, state, count FROM counter").fetchall() == [("porep-c2", "done", 1)]
    detail = owner.execute("SELECT detail FROM job").fetchone()
    assert detail is not None and detail[0]["submitted_by"] == "seen at rust-1" and "sector_size" not in detail[0]


def test_the_phantom_idle_of_two_workers_is_named(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    """Split proving with a tracker that clears workers by their id: the sequence that made both read idle."""
    base = "d" * 9

    def seen(at: float, tail: str, workers: list[dict[str, Any]]) -> None:
        see(bridge, daemon, status(1000 + at, [pipeline("ps-snap-1000-7", base + tail, 100 + at)], workers))

    name = "ps-snap-1000-7"
    seen(-14.4, "grrr", [proving(0, name, 9), idle(1)])
    seen(-9.8, "ggrr", [proving(0, name, 9), proving(1, name, 10)])
    seen(-5.2, "gggr", [proving(0, name, 11), proving(1, name, 10)])
    assert attempts(owner, name).split()[9:] == ["finalizing@0/0", "claimed@0/1", "claimed@0/0", "ready"]
    assert odd(owner) == []
    seen(-4.8, "dggr", [idle(0), proving(1, name, 10)])  # the tail of P9 ended, and cleared W0
    assert odd(owner) == [
        ("phantom_idle", f"the daemon says that W0 is idle, but P11 of {name} is on the GPU, for 0.6 s")
    ]
    seen(-0.587, "dggg", [idle(0), proving(1, name, 12)])
    seen(0, "ddgg", [idle(0), idle(1)])  # the screenshot
    texts = [text for _, text in odd(owner)]
    assert len(texts) == 2 and "W1 is idle, but P12" in texts[1]
    assert attempts(owner, name).split()[9:] == ["done@0/0", "done@0/1", "claimed@0/0", "claimed@0/1"]  # the truth
    check_fold(owner)


def test_a_phantom_whose_beginning_nobody_saw(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "gg", 1)]))
    assert attempts(owner) == "claimed@-1/0 claimed@-1/1"
    assert [code for code, _ in odd(owner)] == ["phantom_idle", "phantom_idle"]
    assert "every worker is idle" in odd(owner)[0][1]
    see(bridge, daemon, status(2, [pipeline("j", "gg", 2)]))
    assert len(odd(owner)) == 2  # said once
    unseen = owner.execute("SELECT detail ->> 'display' FROM worker WHERE id LIKE 'rust-1/-1/%'").fetchall()
    assert unseen == [("?",), ("?",)]


def test_alerts_follow_from_it(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "gg", 1), pipeline("k", "f", 1)]))
    (session,) = owner.execute("SELECT id FROM session WHERE prover = 'rust-1'").fetchone() or ()
    owner.execute("SELECT lose_session(%s, 'lease_expired')", [session])
    assert evaluate(0)
    opened = dict(owner.execute("SELECT condition, key FROM alert WHERE closed_at IS NULL").fetchall())
    assert opened == {
        "anomaly": "phantom_idle", "failed_job": "porep-c2 daemon_failed", "lost_prover": "prover rust-1",
    }  # fmt: skip


def test_one_process_looks_at_a_time(site: Database, owner: Owner) -> None:
    with owner.transaction():
        owner.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        assert not evaluate(0)
    with ThreadPoolExecutor(4) as threads:
        looked = list(threads.map(lambda _: (evaluate(), connections.close_all())[0], range(8)))
    assert looked.count(True) == 1


def test_an_idle_worker_is_no_phantom_while_others_have_tails(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "ggr", 1)], [proving(0, "j", 1), idle(1)]))
    assert odd(owner) == []  # the other partition may be in the tail of what W0 had before


def test_a_failure_ends_the_job_once(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    for second in range(4):  # an original daemon shows a failed job for ever
        see(bridge, daemon, status(10 + second, [pipeline("j", "fgs", 5 + second)], [idle(0), proving(1, "j", 1)]))
    assert job(owner) == ("failed", "daemon_failed", 0)
    assert owner.execute("SELECT count(*) FROM job").fetchone() == (1,)
    assert attempts(owner) == "failed lost@0/1 lost"
    check_fold(owner)


def test_a_job_that_goes_unseen_ends_unknown(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "ss", 1)]))
    see(bridge, daemon, status(50))
    assert job(owner) == ("cancelled", "end_unknown", 0)


def test_the_same_id_again_is_another_job(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(100, [pipeline("j", "dd", 90)]))
    see(bridge, daemon, status(110, [pipeline("j", "ss", 3)]))
    assert job(owner) == ("done", None, 2) and job(owner, "j#2") == ("running", None, 0)


def test_a_restart_of_the_daemon_loses_its_jobs(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(100, [pipeline("j", "sg", 9), pipeline("k", "dd", 9)], [proving(0, "j", 1), idle(1)]))
    see(bridge, daemon, status(2, [pipeline("j", "s", 1)]))
    assert job(owner) == ("failed", "daemon_restarted", 0) and job(owner, "k") == ("cancelled", "end_unknown", 2)
    assert job(owner, "j#2") == ("running", None, 0)
    sessions = owner.execute("SELECT state, reason FROM session WHERE prover = 'rust-1' ORDER BY started_at").fetchall()
    assert sessions == [("lost", "daemon_restarted"), ("online", None)]
    check_fold(owner)


def test_a_watch_that_was_lost_goes_on_with_the_same_jobs(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(100, [pipeline("j", "dsg", 9)], [proving(0, "j", 2), idle(1)]))
    (session,) = owner.execute("SELECT id FROM session WHERE prover = 'rust-1'").fetchone() or ()
    owner.execute("SELECT lose_session(%s, 'lease_expired')", [session])
    assert job(owner) == ("running", None, 1)  # no prover may take it
    assert owner.execute("SELECT count(*) FROM job WHERE state = 'queued'").fetchone() == (0,)
    see(bridge, daemon, status(120, [pipeline("j", "dgg", 29)], [proving(0, "j", 1), idle(1)]))
    assert job(owner) == ("running", None, 1) and owner.execute("SELECT count(*) FROM job").fetchone() == (1,)
    assert attempts(owner).split()[1] == "claimed@0/0"
    check_fold(owner)


def test_what_people_ask_of_it_is_refused(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "s", 1)]))
    owner.execute("SELECT request_command('pause', 'rust-1/0/0', NULL, 'olga')")
    bridge.look()
    rows = owner.execute("SELECT state, outcome FROM command").fetchall()
    assert rows == [("refused", "the daemon is only watched: it takes no commands from here")]


def test_a_bad_answer_is_told_and_the_next_good_one_taken(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "s", 1)]))
    for answer in (500, 404, 301, b"", b"nonsense", b"[" * 100_000, b'{"uptime_secs": NaN}', b"[]"):
        see(bridge, daemon, answer)
        assert "[daemon_unreachable]" in bridge.trouble or "[status_invalid]" in bridge.trouble
    see(bridge, daemon, status(2, [pipeline("j", "r", 2)]))
    assert bridge.trouble == "" and attempts(owner) == "ready"


def test_a_daemon_that_drips_or_pours_is_left(daemon: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "WHOLE_S", 0.4)

    def drip(handler: Any) -> None:
        try:
            for _ in range(100):
                handler.wfile.write(b"H")
                time.sleep(0.05)
        except OSError:
            pass

    def pour(handler: Any) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MOST_BYTES + 100))
        except OSError:
            pass

    daemon.answer = drip
    with pytest.raises(DaemonUnreachable):
        Daemon(daemon.url).status()
    daemon.answer = pour
    with pytest.raises(StatusInvalid, match="longer than"):
        Daemon(daemon.url).status()


def refused(daemon: Original, name: str, error: type[Exception]) -> None:
    with closing(Bridge(Daemon(daemon.url), name)) as other, pytest.raises(error):
        other.look()


def test_a_name_is_one_watchers_and_no_provers(bridge: Bridge, daemon: Original, owner: Owner) -> None:
    see(bridge, daemon, status())
    refused(daemon, "rust-1", WatchedTwice)
    owner.execute(
        "INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, version, head_seq,"
        " started_at) VALUES (gen_random_uuid(), 'alpha', 'stopped', now(), '{}', '{}', 0, '', '', '', 0, now())"
    )
    refused(daemon, "alpha", WatchedTwice)
    for name in ("site", "a/b", "a b", ""):
        refused(daemon, name, NameInvalid)


def test_the_sites_login_writes_nothing_of_a_prover(site: Database, owner: Owner) -> None:
    with site.connect(SITE) as web:
        for call in ("watch_write(%s, '[]', '[]', '{}', '[]')", "watch_job(%s, 'x', 'y', 1)"):
            with pytest.raises(psycopg.errors.NoDataFound):
                web.execute(f"SELECT {call}", ["00000000-0000-0000-0000-000000000000"])
        (mine,) = web.execute("SELECT watch_begin('rust-9', 'h')").fetchone() or ()
        foreign = {"entity": "worker", "id": "alpha/0/0", "state": "lost", "at_us": 1, "rank": 0}
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            web.execute("SELECT watch_write(%s, '[]', %s, '{}', '[]')", [mine, json.dumps([foreign])])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            web.execute("SELECT watch_rows(%s, 'alpha', '[]')", [mine])


async def test_the_page_has_it(bridge: Bridge, daemon: Original) -> None:
    see(bridge, daemon, status(1, [pipeline("j", "g", 1)], [proving(0, "j", 0), idle(1)]))
    state = (await snapshot.read()).state
    assert [state.activity(f"rust-1/0/{n}") for n in (0, 1)] == ["proving", "idle"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uptime_secs": -1}, "uptime_secs"), ({"uptime_secs": True}, "uptime_secs"), ({"memory": None}, "memory"),
        ({"pipelines": {}}, "pipelines"), ({"pipelines": [pipeline("j", "s")] * 2}, "pipelines.job_id"),
        ({"pipelines": [pipeline("j" * 301, "s")]}, "pipelines[0].job_id"),
        ({"pipelines": [pipeline("a\x00b", "s")]}, "pipelines[0].job_id"),
        ({"pipelines": [pipeline("j", "s" * 1025)]}, "pipelines[0].partitions"),
        ({"pipelines": [pipeline("j", "")]}, "pipelines[0].partitions"),
        ({"gpu_workers": [idle(0), idle(0)]}, "gpu_workers.worker_id"),
        ({"gpu_workers": [idle(10**9)]}, "gpu_workers[0]"), ({"gpu_workers": [idle(0)] * 257}, "gpu_workers"),
        ({"counters": {"queue_depth": 2**64, "completed_by_kind": {}}}, "counters.queue_depth"),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_and_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(StatusInvalid) as refused:
        parse(json.dumps(status() | change).encode())
    assert refused.value.field == field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(status())), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(list(status())), value=JSON)
def test_whatever_stands_in_a_field_is_read_or_refused(name: str, value: Any) -> None:
    try:
        parse(json.dumps(status() | {name: value}).encode())
    except StatusInvalid:
        pass


def test_the_command_watches_until_it_is_asked_to_end(daemon: Original, site: Database, owner: Owner) -> None:
    daemon.answer = status(1, [pipeline("j", "s", 1)])
    env = os.environ | {"DATABASE_URL": site.url(SITE), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "manage.py", "watch_cuzk", daemon.url, "--name", "rust-1", "--every", "0.1"]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 20
        while job(owner) is None and time.monotonic() < until:
            time.sleep(0.05)
        process.terminate()
        said, _ = process.communicate(timeout=10)
    assert process.returncode == 0 and said.startswith("watching 127.0.0.1:")
    assert job(owner) == ("running", None, 0)
    assert owner.execute("SELECT reason FROM session WHERE prover = 'rust-1'").fetchone() == ("no_longer_watched",)
