"""A large request over a slow link takes as long as it moves; one that stands still, or works too long, is ended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from cuzk_web import env, faults, patience
from cuzk_web.submission.samples import SAMPLES
from prover.filecoin.request import parse_json
from prover.journal import connection as cli
from prover.journal.claims import claim
from prover.journal.client import Client
from prover.stack.roles import DAEMON, SITE
from tests.journal.helpers import running, submit_one
from tests.postgres import Database
from tests.slow_link import Link, slow_link

pytestmark = pytest.mark.postgres

RATE = 2e6  # bytes a second
LARGE = "x" * 5_000_000  # more than the kernel buffers, and than a link carries in any of the bounds below
SILENCE_S = 0.5
LENGTH = "SELECT length(%s)"


def through(link: Link, database: Database, role: str = SITE) -> str:
    return database.url(role).replace(f":{database.server.port}/", f":{link.port}/")


@pytest.fixture
def link(database: Database) -> Iterator[Link]:
    with slow_link(database.server.port, RATE) as link:
        yield link


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> Iterator[None]:
    """The bounds of a serving process, but shorter."""
    monkeypatch.setattr(patience, "ANSWER_S", SILENCE_S)
    monkeypatch.setattr(patience.PatientConnection, "answer_s", SILENCE_S)
    monkeypatch.setattr(patience, "STATEMENT_S", 1)
    patience.serve_patiently()
    with django_db_blocker.unblock():
        yield
    patience.connection_created.disconnect(dispatch_uid="patience")


@contextmanager
def of_a_page(url: str) -> Iterator[BaseDatabaseWrapper]:
    """A connection as Django makes them."""
    made = connections.create_connection("default")
    made.settings_dict = {**made.settings_dict, **env.database(url)}
    try:
        yield made
    finally:
        made.close()


@pytest.mark.usefixtures("impatient")
def test_a_page_sends_a_large_request(database: Database, link: Link) -> None:
    with of_a_page(through(link, database)) as made, made.cursor() as cursor:
        started = time.monotonic()
        cursor.execute(LENGTH, [LARGE])
        assert cursor.fetchone() == (len(LARGE),)
        assert time.monotonic() - started > 2 * SILENCE_S and link.carried > len(LARGE)


@pytest.mark.usefixtures("impatient")
async def test_so_does_the_hub(database: Database, link: Link) -> None:
    async with await patience.PatientConnection.connect(through(link, database)) as connection:
        cursor = await connection.execute(LENGTH, [LARGE])
        assert await cursor.fetchone() == (len(LARGE),)


@pytest.mark.usefixtures("impatient")
def test_one_that_stands_still_is_ended(database: Database, link: Link) -> None:
    with of_a_page(through(link, database)) as made, made.cursor() as cursor:
        cursor.execute("SELECT 1")
        link.up.clear()
        with pytest.raises(OperationalError) as caught:
            cursor.execute(LENGTH, [LARGE])
        assert isinstance(faults.fault(caught.value), faults.DatabaseUnreachable)
        assert made.connection.closed


@pytest.mark.usefixtures("impatient")
def test_the_database_works_no_longer_for_it(database: Database, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ANSWER_S", 30.0)
    with of_a_page(through(link, database)) as made, made.cursor() as cursor:
        with pytest.raises(OperationalError) as caught:
            cursor.execute("SELECT length(%s), pg_sleep(60)", [LARGE])
    assert isinstance(faults.fault(caught.value), faults.DatabaseTimeout)


def test_the_command_line_submits_over_it(database: Database, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement's time, of the database's own clock, runs while it works, not while the request travels."""
    request = parse_json(SAMPLES["deadline"].read())
    link.rate = len(request.canonical) / 2.0
    monkeypatch.setitem(cli.PARAMETERS, "options", cli.OPTIONS.replace("statement_timeout=10s", "statement_timeout=1s"))
    client = Client(through(link, database))
    try:
        started = time.monotonic()
        assert client.submit(request, "olga").created
        assert time.monotonic() - started > 1.5
    finally:
        client.close()
    with database.connect() as owner:
        assert owner.execute("SELECT request FROM job_input").fetchone() == (request.canonical,)


def impatient_prover(link: Link, database: Database, monkeypatch: pytest.MonkeyPatch) -> psycopg.Connection:
    """Its end of a link that brings 6 MB a second."""
    link.rate, link.back = math.inf, 6e6
    monkeypatch.setitem(cli.PARAMETERS, "options", cli.OPTIONS.replace("statement_timeout=10s", "statement_timeout=1s"))
    return cli.connect(through(link, database, DAEMON), "test")


def test_a_prover_reads_a_large_request_over_it(
    database: Database, link: Link, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = bytes(12 << 20)  # more than the server's kernel takes, and than the link brings in the statement's time
    job = submit_one(database, content=content)
    with running(database, tmp_path) as prover, impatient_prover(link, database, monkeypatch) as connection:
        (claimed,) = claim(connection, prover.session, 1)
        assert (claimed.info.id, claimed.request) == (job, content)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1s",)


def test_what_that_guards_against_is_real(database: Database, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    with impatient_prover(link, database, monkeypatch) as connection, pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT repeat('x', 12 << 20)")


def test_what_it_guards_against_is_real(database: Database, link: Link) -> None:
    """In one piece with its text, the statement would be ended while its values travel."""
    with psycopg.connect(through(link, database), options="-c statement_timeout=1s") as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(LENGTH, [LARGE])
