"""Backup and restore by Postgres' own programs: a restored database starts clean; nothing that was done runs again."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from prover.journal.aside import Aside
from prover.journal.client import Client
from prover.journal.ledger import Ledger
from prover.journal.records import Proof
from prover.journal.spool import Spool
from prover.stack.passwords import password
from prover.stack.roles import OWNER, SITE, make_database
from prover.states import Entity, Transition
from tests.journal.helpers import PROOF, Prover, assert_fold_equals_tables, await_grown_up, running, submit_one
from tests.postgres import ROOT, Database

pytestmark = pytest.mark.postgres


def program(database: Database, name: str, *words: str) -> None:
    """One of Postgres' own programs, as the owner."""
    environment = {**os.environ, "PGPASSWORD": password(database.server.secrets, OWNER)}
    place = ["--host=127.0.0.1", f"--port={database.server.port}", f"--username={OWNER}"]
    command = [str(database.server.binaries.folder / name), *place, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@contextmanager
def another(database: Database, *template: str) -> Iterator[Database]:
    """An empty database on the same server, or a copy of one."""
    name = f"test_{secrets.token_hex(6)}"
    words = (sql.Identifier(name), sql.Identifier(*template or ("template1",)), sql.Identifier(OWNER))
    with database.server.connect() as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(*words))
        make_database(connection, name)
        yield Database(database.server, name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with database.connect(OWNER) as owner:
        return owner.execute(query).fetchall()  # type: ignore[arg-type]


def half_proved(prover: Prover) -> None:
    """The next job has one of its two partitions proved, and the other on a device."""
    (job,) = prover.take()
    assert prover.tracker.job_loading(job.info.id) and prover.tracker.job_running(job.info.id)
    prover.prove_partition(job.info.id, 0, prover.workers[0])
    key = prover.tracker.new_attempt(job.info.id, 1)
    assert key is not None and prover.tracker.reserved(key, {"bytes": 7})
    assert prover.tracker.partition_synth_start(key) and prover.tracker.partition_synth_end(key)
    assert prover.tracker.partition_gpu_start(key, prover.workers[1])


def test_a_restored_database_starts_clean(database: Database, tmp_path: Path) -> None:
    backup, spools = tmp_path / "backup", tmp_path / "spool"
    done, begun, queued = (submit_one(database, partitions=2, content=bytes([n])) for n in range(3))
    with running(database, tmp_path / "old") as old:
        (job,) = old.take()
        assert job.info.id == done
        old.prove(job)
        half_proved(old)
        assert old.journal.flush()
        program(database, "pg_dump", "--format=custom", f"--file={backup}", database.name)
        head = old.tracker.snapshot().heads[old.session]

    with another(database) as restored:
        program(restored, "pg_restore", "--exit-on-error", f"--dbname={restored.name}", str(backup))
        ghost = ("online", old.session)
        assert rows(restored, "SELECT state, id::text FROM session WHERE prover = 'prover-a'") == [ghost]
        _untouched_it_cleans_itself(restored)
        with restored.connect(SITE) as web:
            web.execute("SELECT request_command('pause', %s, NULL, 'olga')", [old.workers[0]])
        with restored.connect(OWNER) as owner:
            owner.execute("INSERT INTO django_session VALUES ('key', 'data', now() + interval '1 day')")
        assert _after_restore(restored) == "ended 1 sessions of provers, 1 commands, 1 logins\n"
        assert _after_restore(restored) == "ended 0 sessions of provers, 0 commands, 0 logins\n"
        _no_ghosts(restored)
        _spools_of_before(restored, spools, old.session, begun)
        _a_prover_of_before_is_fenced(restored, tmp_path, old.session, head)

        with running(restored, spools, "prover-b") as new:
            claimed = {job.info.id: job for job in new.take(9)}
            assert set(claimed) == {begun, queued}, "what the backup holds as done is not proved again"
            assert set(claimed[begun].proofs) == {0, 1}, "nor what it holds of a job, or an old spool"
            for job in claimed.values():
                new.prove(job)
            assert new.journal.flush()
        assert rows(restored, "SELECT state, count(*)::int FROM job GROUP BY 1") == [("done", 3)]
        assert rows(restored, "SELECT state, count::int FROM counter") == [("done", 3)]
        assert rows(restored, "SELECT count(*)::int FROM delivery") == [(3,)]
        assert_fold_equals_tables(restored)


def _untouched_it_cleans_itself(restored: Database) -> None:
    """Without the command too: leases that the backup holds run out, once somebody has watched for as long as one."""
    await_grown_up(restored)
    with another(restored, restored.name) as left_alone, left_alone.connect(OWNER) as owner:
        owner.execute("UPDATE session SET lease_until = now() - interval '1 h', heartbeat_at = now() - interval '1 h'")
        assert owner.execute("SELECT mark_lost()").fetchone() == (0,), "observers come first"
        owner.execute("UPDATE session SET lease_until = now() - interval '1 second' WHERE prover = 'site'")
        assert owner.execute("SELECT mark_lost()").fetchone() == (1,)
        _no_ghosts(left_alone)


def _after_restore(restored: Database) -> str:
    env = os.environ | {"DATABASE_URL": restored.url(OWNER), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "manage.py", "after_restore"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


def _no_ghosts(restored: Database) -> None:
    """Nothing works any more, and everything says so; what was begun waits for a prover."""
    assert rows(restored, "SELECT DISTINCT state FROM session WHERE prover <> 'site'") == [("lost",)]
    assert rows(restored, "SELECT DISTINCT state FROM worker") == [("lost",)]
    assert rows(restored, "SELECT DISTINCT state FROM device") == [("lost",)]
    assert rows(restored, "SELECT state, session_id FROM job WHERE ended_at IS NULL") == [("queued", None)] * 2
    assert rows(restored, "SELECT count(*)::int FROM attempt WHERE state NOT IN ('done', 'lost')") == [(0,)]
    client = Client(restored.url(SITE))
    gauges = client.fleet().state.gauges()
    client.close()
    assert gauges["gpu_active"] == gauges["open_attempts"] == 0 and gauges["queue_depth"] == 2
    assert_fold_equals_tables(restored)


def _spools_of_before(restored: Database, folder: Path, session: str, job: str) -> None:
    """One of a session that the backup knows, with a proof that it does not have; one of a session that it does not."""
    for owner in (session, str(uuid.uuid4())):
        spool, now_us = Spool(folder, owner), time.time_ns() // 1000
        move = Transition(owner, 99, now_us, 1, Entity.SESSION, owner, "online", "online")
        spool.append([Proof(job, 1, 1, PROOF, now_us), move])
        spool.close()
    with running(restored, folder, "prover-c") as new:
        assert new.journal.flush()
    assert [path.suffix for path in folder.iterdir()] == [".unreadable"]
    assert rows(restored, f"SELECT partition FROM proof WHERE job_id = '{job}' ORDER BY 1") == [(0,), (1,)]
    assert rows(restored, "SELECT code FROM anomaly") == [("stale_session",)]


def _a_prover_of_before_is_fenced(restored: Database, folder: Path, session: str, head: int) -> None:
    """One that ran through the restore finds its session ended, whatever the backup says of its log."""
    ledger = Ledger(session, Aside(folder, session), head=head + 50)
    with psycopg.connect(restored.url(), autocommit=True) as connection:
        ledger.write(connection, [Transition(session, head + 51, 1, 1, Entity.SESSION, session, "online", "stopped")])
    assert ledger.lost is not None and "is lost" in ledger.lost
    with restored.connect(OWNER) as owner:
        owner.execute("DELETE FROM anomaly")
