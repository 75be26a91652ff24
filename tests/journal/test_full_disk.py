"""The spool's disk, a real one, is full or read-only: nothing new is claimed, and what was accepted is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.journal.errors import SpoolUnwritable
from prover.journal.journal import Journal
from prover.pipeline.clock import Clock
from prover.stack.roles import DAEMON
from tests.disks import Disk, small_disk
from tests.journal.helpers import eventually, running, submit_one
from tests.journal.test_outage import assert_delivered
from tests.postgres import Database

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def test_full_while_the_database_accepts(database: Database, disk: Disk) -> None:
    for _ in range(3):
        submit_one(database)
    with running(database, disk.folder / "spool") as prover:
        (accepted,) = prover.take()
        disk.fill()
        eventually(lambda: prover.journal.trouble == "spool_full")
        assert prover.take() == []
        prover.prove(accepted)
        assert prover.journal.flush()
        assert_delivered(database, 1)
        assert prover.take() == [] and prover.journal.trouble == "spool_full"
        disk.free()
        eventually(lambda: prover.journal.healthy)
        (another,) = prover.take()
        prover.prove(another)
        assert prover.journal.flush()
        assert_delivered(database, 2)


def test_a_disk_that_is_full_at_the_start(database: Database, disk: Disk) -> None:
    submit_one(database)
    disk.fill()
    with running(database, disk.folder / "spool") as prover:
        eventually(lambda: prover.journal.trouble == "spool_full")
        assert prover.take() == []
        disk.free()
        eventually(lambda: prover.journal.healthy)
        assert len(prover.take()) == 1


def test_a_read_only_folder_stops_the_start(database: Database, disk: Disk) -> None:
    disk.make_read_only()
    with pytest.raises(SpoolUnwritable, match=rf"daemon.spool: {disk.folder}/spool: Read-only file system"):
        Journal.open(database.url(DAEMON), "p", disk.folder / "spool", version="", clock=Clock())


def test_a_folder_that_cannot_be_made_stops_the_start(database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolUnwritable, match="file/spool: Not a directory"):
        Journal.open(database.url(DAEMON), "p", tmp_path / "file/spool", version="", clock=Clock())
