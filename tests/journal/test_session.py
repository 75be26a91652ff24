"""The life of a prover process: killed, stopped, started again; its heart beats beside it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from prover.journal.errors import DatabaseAway, ProverNameTaken
from prover.journal.journal import Journal
from prover.pipeline.clock import Clock
from prover.stack.roles import DAEMON, OWNER, SITE
from prover.states import Admin
from tests.journal.helpers import (
    PROOF,
    Prover,
    assert_fold_equals_tables,
    await_grown_up,
    eventually,
    running,
    submit_one,
    watched,
)
from tests.postgres import ROOT, Database
from tests.stack.test_postgres import gone

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

PROVER = """
    import sys, time
    from pathlib import Path
    from types import SimpleNamespace
    import structlog
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for the answers
    from tests.journal.helpers import Prover
    database = SimpleNamespace(url=lambda role: sys.argv[1])
    prover = Prover(database, Path(sys.argv[2]))
    say = lambda *words: print(*words, flush=True)
    say("session", prover.session, prover.journal._heartbeat.pid)
    for line in sys.stdin:
        match line.split():
            case ["take"]:
                claimed = prover.take()
                say("took", len(claimed))
            case ["prove"]:
                prover.prove(claimed[0])
                say("proved")
            case ["trouble"]:
                say(prover.journal.trouble)
            case ["hold-the-interpreter", seconds]:
                say("holding")
                import ctypes
                ctypes.PyDLL(None).usleep(int(float(seconds) * 1e6))  # keeps the interpreter's lock
                say("held")
"""


class Process:
    """A prover in a process of its own, told what to do by lines."""

    def __init__(self, database: Database, folder: Path) -> None:
        command = [sys.executable, "-c", textwrap.dedent(PROVER), database.url(DAEMON), str(folder)]
        self.popen = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        _, self.session, heart = self.hear()
        self.heart = int(heart)

    def hear(self) -> list[str]:
        return self.popen.stdout.readline().split()

    def tell(self, line: str) -> list[str]:
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        return self.hear()


@contextmanager
def process(database: Database, folder: Path) -> Iterator[Process]:
    child = Process(database, folder)
    try:
        yield child
    finally:
        child.popen.kill()
        child.popen.communicate()


def proved_while_the_database_was_away_and_killed(database: Database, folder: Path) -> str:
    """A prover takes the one job, and its proof is in the spool alone when it dies; its session."""
    with process(database, folder) as child:
        assert child.tell("take") == ["took", "1"]
        database.server.stop()
        assert child.tell("prove") == ["proved"]
        eventually(lambda: [path for path in folder.glob("*.spool") if b'"done"' in path.read_bytes()])
        kill(child)
    database.server.start()
    return child.session


def kill(child: Process) -> None:
    child.popen.send_signal(signal.SIGKILL)
    child.popen.wait()


def beat_at(owner: psycopg.Connection, session: str):
    return owner.execute("SELECT heartbeat_at FROM session WHERE id = %s", [session]).fetchone()[0]


def beats_within(owner: psycopg.Connection, session: str, seconds: float) -> bool:
    before, deadline = beat_at(owner, session), time.monotonic() + seconds
    while time.monotonic() < deadline:
        if beat_at(owner, session) > before:
            return True
        time.sleep(0.1)
    return False


def test_beats_while_the_interpreter_is_held_and_reports_the_tick(database: Database, tmp_path: Path) -> None:
    with process(database, tmp_path) as child, database.connect(OWNER) as owner:
        assert beats_within(owner, child.session, 10)
        assert child.tell("hold-the-interpreter 6") == ["holding"]
        assert beats_within(owner, child.session, 4)
        assert beats_within(owner, child.session, 4)
        age = "SELECT extract(epoch FROM heartbeat_at - tick_at) FROM session WHERE id = %s"
        assert owner.execute(age, [child.session]).fetchone()[0] > 3  # alive, but nothing ticks
        assert child.hear() == ["held"]


def test_stopped_parent_is_not_kept_alive(database: Database, tmp_path: Path) -> None:
    with process(database, tmp_path) as child, database.connect(OWNER) as owner:
        assert beats_within(owner, child.session, 10)
        child.popen.send_signal(signal.SIGSTOP)
        time.sleep(0.5)  # a beat may have been under way
        assert not beats_within(owner, child.session, 5)
        child.popen.send_signal(signal.SIGCONT)
        assert beats_within(owner, child.session, 10)


def test_killed_prover_is_lost_within_its_lease_and_leaves_no_heart(database: Database, tmp_path: Path) -> None:
    await_grown_up(database)
    submit_one(database)
    with process(database, tmp_path) as child, database.connect(SITE) as web:

        def lost() -> bool:
            web.execute("SELECT mark_lost()")
            in_time = "SELECT state, ended_at < heartbeat_at + interval '15 seconds' FROM session WHERE id = %s"
            return web.execute(in_time, [child.session]).fetchone() == ("lost", True)

        assert child.tell("take") == ["took", "1"]
        assert not lost()
        with database.connect(OWNER) as owner:
            watched(owner)
        assert beats_within(web, child.session, 10)
        assert not lost()  # it lives
        kill(child)
        assert gone(child.heart, 5)
        eventually(lost, 20)
        assert web.execute("SELECT state, session_id FROM job").fetchone() == ("queued", None)


def test_killed_and_started_again(database: Database, tmp_path: Path) -> None:
    """The next session on the machine need not wait for the lease; the job is delivered once and counted once."""
    submit_one(database)
    with process(database, tmp_path) as child:
        assert child.tell("take") == ["took", "1"]
        kill(child)
        with running(database, tmp_path) as prover:
            (claimed,) = prover.take()
            prover.prove(claimed)
            prover.journal.flush()
            assert assert_fold_equals_tables(database).ended == {"window-post done": 1}
            with database.connect(OWNER) as owner:
                row = owner.execute("SELECT state, reason FROM session WHERE id = %s", [child.session]).fetchone()
                assert row == ("lost", "superseded")


def test_spool_of_a_killed_prover(own_server: Database, tmp_path: Path) -> None:
    """Proved while the database was away, then killed: the next start finds the proof and the job's end."""
    submit_one(own_server)
    proved_while_the_database_was_away_and_killed(own_server, tmp_path)
    with running(own_server, tmp_path) as prover:
        assert prover.take() == []
        assert assert_fold_equals_tables(own_server).ended == {"window-post done": 1}
    assert list(tmp_path.iterdir()) == []
    with own_server.connect(OWNER) as owner:
        assert owner.execute("SELECT proof FROM delivery").fetchall() == [(PROOF,)]


def test_spool_that_comes_too_late(own_server: Database, tmp_path: Path) -> None:
    """Its session was marked lost before: the proof is kept, the states are logged, the job is proved by the next."""
    job = submit_one(own_server)
    dead = proved_while_the_database_was_away_and_killed(own_server, tmp_path)
    with own_server.connect(OWNER) as owner:
        owner.execute("SELECT supersede_session(%s)", [dead])
    with running(own_server, tmp_path) as prover:
        (claimed,) = prover.take()
        assert (claimed.info.id, claimed.proofs) == (job, {0: PROOF})
        prover.prove(claimed)
        prover.journal.flush()
        assert assert_fold_equals_tables(own_server).ended == {"window-post done": 1}
    with own_server.connect(OWNER) as owner:
        late = owner.execute("SELECT entity, new FROM anomaly WHERE code = 'stale_session' ORDER BY number DESC")
        assert ("job", "done") in late.fetchall()


def test_a_file_that_is_no_spool_is_set_aside(database: Database, tmp_path: Path) -> None:
    (tmp_path / "x.spool").write_text("not a spool")
    with running(database, tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["x.unreadable"]


def test_two_provers_of_one_name(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path), pytest.raises(ProverNameTaken, match="runs already"):
        Prover(database, tmp_path)


def test_the_sites_name_is_taken(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ProverNameTaken):
        Journal.open(database.url(DAEMON), "site", tmp_path, version="", clock=Clock())


def test_no_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseAway):
        Journal.open("postgresql://x:y@127.0.0.1:9/none", "p", tmp_path, version="", clock=Clock())


def test_wishes_survive(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover:
        prover.tracker.set_admin(prover.workers[1], Admin.PAUSED, by="bob")
        prover.tracker.session_stopped("test")
    with running(database, tmp_path) as prover:
        assert [(wish.worker, wish.admin) for wish in prover.journal.wishes] == [(prover.workers[1], "paused")]


def test_heartbeat_process_that_dies_is_started_again(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner:
        first = prover.journal._heartbeat.pid
        subprocess.run(["kill", "-KILL", str(first)], check=True)
        eventually(lambda: prover.journal._heartbeat.pid not in (first, None))
        assert beats_within(owner, prover.session, 10)


def test_a_loop_that_still_runs_may_tick_after_the_end(database: Database, tmp_path: Path) -> None:
    """The engine's loop may be in the midst of its last round when the journal is closed."""
    prover = Prover(database, tmp_path)
    assert prover.journal.close()
    prover.journal.tick()
    prover.journal.sample({})
    assert prover.journal.claim(1) == []


def test_the_clock_is_the_databases(database: Database, tmp_path: Path) -> None:
    clock = Clock(wall_ns=lambda: time.time_ns() - 10**12)  # a machine that is 1000 s slow
    journal = Journal.open(database.url(DAEMON), "slow", tmp_path, version="", clock=clock)
    try:
        with database.connect(OWNER) as owner:
            before = owner.execute("SELECT to_us(clock_timestamp())").fetchone()[0]
            stamp = clock.now_us()
            after = owner.execute("SELECT to_us(clock_timestamp())").fetchone()[0]
        assert before - 50_000 < stamp < after + 50_000
    finally:
        journal.close()
