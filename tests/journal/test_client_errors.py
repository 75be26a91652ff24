"""What a submitter is told when the database refuses: full, unusable, away."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from prover.journal.client import Client, DatabaseUnusable
from prover.journal.connection import is_full
from prover.journal.errors import DatabaseAway, DatabaseFull
from prover.stack.roles import DAEMON
from tests.journal.helpers import eventually, running
from tests.postgres import Database

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("state", "error"),
    [("53100", DatabaseFull), ("53300", DatabaseFull), ("57P03", DatabaseAway), ("42P01", DatabaseUnusable)],
)
def test_the_code_says_what_is_wrong(database: Database, state: str, error: type[Exception]) -> None:
    client = Client(database.url(DAEMON))
    with pytest.raises(Exception) as raised:
        client._row(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$", [])
    client.close()
    assert type(raised.value) is error


def limit(database: Database, connections: int) -> None:
    """Of all but superusers; -1: none."""
    with database.server.connect() as admin:
        admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT {connections}")


def test_a_connection_too_many_is_told_as_full(database: Database) -> None:
    """The refusal has no SQL state."""
    limit(database, 0)
    client = Client(database.url(DAEMON))
    with pytest.raises(DatabaseFull, match="too many connections for database"):
        client.fleet()
    limit(database, -1)
    assert client.fleet().sessions == ()
    client.close()


@pytest.mark.parametrize(
    "said",
    [
        "sorry, too many clients already",
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_so_is_a_server_without_free_slots(said: str) -> None:
    assert is_full(psycopg.OperationalError(f"connection failed: FATAL:  {said}"))
    assert not is_full(psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"))


def test_the_journal_says_so_too(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover:
        limit(database, 0)
        with database.server.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database.name])
        assert prover.tracker.worker_stopped(prover.workers[0], "test")
        eventually(lambda: prover.journal.trouble == "database_full")
        limit(database, -1)
        eventually(lambda: prover.journal.healthy)
