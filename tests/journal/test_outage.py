"""The database goes away and comes back: nothing is lost, nothing is counted twice, proving never waits."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from prover.journal import spool
from prover.journal.records import Proof, Sample
from prover.stack.roles import OWNER
from tests.disks import small_disk
from tests.journal.helpers import PROOF, Prover, assert_fold_equals_tables, eventually, running, submit_one
from tests.journal.test_refused import refused as set_aside
from tests.postgres import Database

pytestmark = pytest.mark.postgres


class FullDisk:
    """The module os, as on a disk that has room for ten bytes more of each write."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        if len(data) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data[: len(data) - 10])


@pytest.fixture
def prover(own_server: Database, tmp_path: Path):
    with running(own_server, tmp_path) as prover:
        yield prover


def assert_delivered(database: Database, jobs: int) -> None:
    assert_fold_equals_tables(database)
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT count(*) FROM job WHERE state = 'done'").fetchone() == (jobs,)
        assert owner.execute("SELECT count(*) FROM delivery WHERE proof = %s", [PROOF]).fetchone() == (jobs,)
        assert owner.execute("SELECT sum(count) FROM counter").fetchone() == (jobs,)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_outage(own_server: Database, prover: Prover, how: str) -> None:
    jobs = [submit_one(own_server) for _ in range(6)]
    claimed = prover.take(len(jobs))
    prover.prove(claimed[0])
    getattr(own_server.server, how)()
    for job in claimed[1:4]:
        prover.prove(job)  # no move waits for the database
    eventually(lambda: prover.journal.trouble == "database_away")
    assert prover.journal.claim(1) == []
    file = eventually(lambda: list(prover.folder.glob("*.spool")))[0]
    assert file.stat().st_mode & 0o777 == 0o600
    for job in claimed[4:]:
        prover.prove(job)
    own_server.server.start()
    assert prover.journal.flush(30)
    assert prover.journal.healthy
    assert_delivered(own_server, len(jobs))
    assert not file.exists()
    assert prover.control.lost == []


def test_connections_cut_while_it_writes(own_server: Database, prover: Prover) -> None:
    """Whether a commit whose answer was lost had succeeded or not: each record is there once."""
    jobs = [submit_one(own_server) for _ in range(60)]
    claimed = prover.take(len(jobs))
    with own_server.server.connect() as admin:
        for job in claimed:
            prover.prove(job)
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cuzk journal'"
            )
            time.sleep(0.02)
    assert prover.journal.flush(30)
    assert_delivered(own_server, len(jobs))


def test_database_full(own_server: Database, prover: Prover) -> None:
    """Postgres says `disk_full`: nothing new is claimed, what goes on is kept, and all of it is there afterwards."""
    submit_one(own_server)
    submit_one(own_server)
    (claimed,) = prover.take()
    with own_server.connect(OWNER) as owner:
        owner.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$;"
            "CREATE TRIGGER no_room BEFORE INSERT ON transition FOR EACH STATEMENT EXECUTE FUNCTION no_room()"
        )
        prover.prove(claimed)
        eventually(lambda: prover.journal.trouble == "database_full")
        assert prover.journal.claim(1) == []
        assert owner.execute("SELECT state FROM job ORDER BY number").fetchall() == [("queued",), ("queued",)]
        owner.execute("DROP TRIGGER no_room ON transition")
    assert prover.journal.flush(30)
    assert_delivered(own_server, 1)
    assert len(prover.take()) == 1


def test_both_full(own_server: Database, prover: Prover, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the database nor the spool's disk accepts: records wait in memory, and nothing is claimed."""
    submit_one(own_server)
    submit_one(own_server)
    (claimed,) = prover.take()
    own_server.server.stop()
    monkeypatch.setattr(spool, "os", FullDisk())
    prover.prove(claimed)
    eventually(lambda: prover.journal.trouble == "spool_full")
    own_server.server.start()
    assert prover.journal.flush(30)
    assert prover.journal.healthy
    assert_delivered(own_server, 1)


def test_poison_does_not_keep_others_out_of_the_spool(own_server: Database, tmp_path: Path) -> None:
    """What has no form in the spool is set aside at once; the rest is spooled, and written when the database is up."""
    submit_one(own_server)
    circular: dict[str, Any] = {}
    circular["again"] = circular
    with running(own_server, tmp_path) as prover:
        (claimed,) = prover.take()
        own_server.server.stop()
        prover.journal._writer.put(Sample(10, circular))
        prover.journal._writer.put(Proof("no uuid", 0, 1, PROOF, 10))
        prover.prove(claimed)
        eventually(lambda: [path for path in tmp_path.glob("*.spool") if b'"done"' in path.read_bytes()])
        own_server.server.start()
        assert prover.journal.flush(30) and prover.journal.healthy
        assert_delivered(own_server, 1)
        assert [left["code"] for left in set_aside(tmp_path)] == ["record_refused"] * 2


def test_a_full_disk_while_the_database_is_away(own_server: Database, tmp_path: Path) -> None:
    """What was proved waits in memory; once there is room it is in the spool, and once the database is back, there."""
    for _ in range(2):
        submit_one(own_server)
    with small_disk(tmp_path / "disk") as disk, running(own_server, disk.folder / "spool") as prover:
        (accepted,) = prover.take()
        disk.fill()
        own_server.server.stop()
        prover.prove(accepted)
        eventually(lambda: prover.journal.trouble == "spool_full")
        waiting = prover.journal.waiting
        assert waiting > 10 and prover.take() == []
        disk.free()
        eventually(lambda: prover.journal.trouble == "database_away" and prover.journal.waiting == 1)
        [kept] = (disk.folder / "spool").glob("*.spool")
        assert b'"delivery"' in kept.read_bytes()
        own_server.server.start()
        assert prover.journal.flush(30) and prover.journal.healthy
        assert_delivered(own_server, 1)
        eventually(lambda: len(prover.take()) == 1)
