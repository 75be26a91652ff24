"""A migration that builds indexes keeps no prover from writing, and can be run again when it was interrupted."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prover.stack.roles import OWNER
from tests.journal.helpers import submit, submit_one
from tests.postgres import Database, migrate, migrated_to, migration

pytestmark = pytest.mark.postgres

INDEXES = """SELECT c.relname, pg_get_indexdef(i.indexrelid), i.indisvalid FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
    WHERE t.relname IN ('job', 'command') AND c.relname NOT IN ('job_ended', 'job_error') ORDER BY 1"""
JOB = "UPDATE job SET reason = 'written'"
COMMAND = """INSERT INTO command (id, action, target, prover, arguments, requested_by_name, requested_at, state,
    state_at, times, detail, moved_seq) VALUES (gen_random_uuid(), 'pause', 'a/0/0', 'a', '{}', 'olga', now(),
    'pending', now(), '{}', '{}', 0)"""


@pytest.fixture
def earlier(template: Database) -> Iterator[Database]:
    """Before the indexes, with a job."""
    with migrated_to(template, "0006") as database:
        submit_one(database)
        yield database


def indexes(database: Database) -> list[tuple[Any, ...]]:
    with database.connect(OWNER) as owner:
        return owner.execute(INDEXES).fetchall()


@contextmanager
def held_up(database: Database, statement: str, target: str = "0007") -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The migration, and its process in the database: it waits for a transaction that has written and goes on."""
    process = migration(database.url(OWNER), "fleet", target)
    try:
        with database.connect(OWNER) as writer, writer.transaction():
            writer.execute(statement)
            yield process, await_index(database, writer.info.backend_pid)
    except BaseException:
        process.kill()
        raise
    finally:
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), errors


def await_index(database: Database, holder: int) -> int:
    """The process that waits for `holder` to build or drop an index."""
    query = "SELECT pid FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid)) AND query ~* 'index|trigger'"
    until = time.monotonic() + 30
    with database.connect(OWNER) as watching:
        while (found := watching.execute(query, [holder]).fetchone()) is None:
            assert time.monotonic() < until
            time.sleep(0.02)
    return int(found[0])


@pytest.mark.parametrize("statement", [JOB, COMMAND])
def test_writers_go_on_while_it_runs(earlier: Database, database: Database, statement: str) -> None:
    with held_up(earlier, statement) as (process, _), earlier.connect(OWNER) as other:
        other.execute("SET lock_timeout = '2s'")
        for _ in range(3):
            submit(other)
            other.execute("UPDATE job SET reason = 'meanwhile' WHERE number > 1")
            other.execute(COMMAND)
        assert process.poll() is None
    assert indexes(earlier) == indexes(database)
    with earlier.connect(OWNER) as owner:
        assert owner.execute("SELECT count(*) FROM job WHERE reason = 'meanwhile'").fetchone() == (3,)


@pytest.mark.parametrize("statement", [JOB, COMMAND])
def test_one_that_was_interrupted_is_run_again(earlier: Database, database: Database, statement: str) -> None:
    with held_up(earlier, statement) as (process, backend):
        process.kill()
        with earlier.connect(OWNER) as owner:
            owner.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
    halfway = indexes(earlier)
    assert halfway != indexes(database)
    assert statement == JOB or not all(valid for *_, valid in halfway)
    migrate(earlier.url(OWNER), "fleet", "0007")
    assert indexes(earlier) == indexes(database)


# -- the words of the search -------------------------------------------------------------------------------------------

WORDS = (
    "SELECT count(*), count(*) FILTER (WHERE words = search_words(job)) FROM job LEFT JOIN job_search ON job_id = id"
)


@pytest.fixture
def unsearched(template: Database) -> Iterator[Database]:
    with migrated_to(template, "0008") as database:
        for _ in range(5):
            submit_one(database)
        yield database


SEARCHED = "LOCK TABLE job_search IN ROW EXCLUSIVE MODE"


@pytest.mark.parametrize(("before", "statement"), [("0008", JOB), ("0009", SEARCHED)])
def test_jobs_come_in_while_the_words_are_made(unsearched: Database, before: str, statement: str) -> None:
    migrate(unsearched.url(OWNER), "fleet", before)
    with held_up(unsearched, statement, "0010") as (process, _), unsearched.connect(OWNER) as other:
        other.execute("SET lock_timeout = '2s'")
        for _ in range(3):
            submit(other)
            other.execute("UPDATE job SET error_code = 'odd' WHERE number > 5")
        assert process.poll() is None
    with unsearched.connect(OWNER) as owner:
        assert owner.execute(WORDS).fetchone() == (8, 8)


def test_words_that_were_made_in_part_are_made_up_for(unsearched: Database, database: Database) -> None:
    migrate(unsearched.url(OWNER), "fleet", "0009")
    with held_up(unsearched, SEARCHED, "0010") as (process, backend):
        process.kill()
        with unsearched.connect(OWNER) as owner:
            owner.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
            owner.execute("DELETE FROM job_search WHERE job_id IN (SELECT id FROM job WHERE number = 3)")
    migrate(unsearched.url(OWNER), "fleet", "0010")
    with unsearched.connect(OWNER) as owner, database.connect(OWNER) as fresh:
        assert owner.execute(WORDS).fetchone() == (5, 5)
        both = [one.execute(INDEXES.replace("command", "job_search")).fetchall() for one in (owner, fresh)]
    assert both[0] == both[1]
