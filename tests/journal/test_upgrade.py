"""A database of an earlier version gets the functions of this one, and keeps its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cuzk_web.fleet import grants
from prover.stack.roles import DAEMON, OWNER
from tests.journal.helpers import submit_one
from tests.postgres import Database, migrate, migrated_to

pytestmark = pytest.mark.postgres

#: the functions that later migrations make again, as an earlier version had them: here they only complain
EARLIER = """
DROP FUNCTION was_worked_on;
CREATE OR REPLACE FUNCTION give_back_job(p_job uuid, p_reason text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'of an earlier version'; END $$;
CREATE OR REPLACE FUNCTION cancel_job(p_job uuid, p_user_id bigint, p_user_name text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'of an earlier version'; END $$;
"""
FUNCTIONS = """SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), proacl::text FROM pg_proc p
    WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' ORDER BY 1"""


@pytest.fixture
def earlier(template: Database) -> Iterator[Database]:
    """A database at the migration before those functions were made again."""
    with migrated_to(template, "0003") as database:
        with database.connect(OWNER) as owner:
            owner.execute(EARLIER)
        yield database


#: makes mark_lost complain
WAITING = """CREATE OR REPLACE FUNCTION settle_job_commands() RETURNS integer LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'of an earlier version'; END $$"""


def functions(database: Database) -> list[tuple[Any, ...]]:
    with database.connect(OWNER) as owner:
        return owner.execute(FUNCTIONS).fetchall()


def test_an_earlier_database_is_brought_up_to_date(earlier: Database, database: Database) -> None:
    job = submit_one(earlier)
    with earlier.connect() as owner, pytest.raises(psycopg.errors.RaiseException, match="earlier"):
        owner.execute("SELECT cancel_job(%s, NULL, 'olga')", [job])
    migrate(earlier.url(OWNER))
    assert functions(earlier) == functions(database)
    with earlier.connect() as owner:
        assert owner.execute("SELECT cancel_job(%s, NULL, 'olga')", [job]).fetchone() == ("cancelled",)


def test_the_last_version_is_brought_up_to_date(template: Database, database: Database) -> None:
    with migrated_to(template, "0017") as earlier:
        with earlier.connect(OWNER) as owner:
            owner.execute(WAITING)
            with pytest.raises(psycopg.errors.RaiseException, match="earlier"):
                owner.execute("SELECT mark_lost()")
        migrate(earlier.url(OWNER))
        assert functions(earlier) == functions(database)
        with earlier.connect(OWNER) as owner:
            owner.execute("SELECT mark_lost()")


COLUMNS = """SELECT table_name, column_name, is_nullable = 'YES' OR column_default IS NOT NULL
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ANY(%s)"""
#: what a prover of the schema 0011 calls, as it calls it
CALLS = [
    "SELECT mark_lost()", "SELECT supersede_session(NULL::uuid)", "SELECT purge()", "SELECT lease_length()",
    "SELECT to_us(now()), from_us(0)", "SELECT site_session()",
    "SELECT outcome, job, number, state, digest FROM submit_job(''::text, ''::bytea, ''::text, 0::bigint, 0, 0,"
    " NULL::timestamptz, NULL::bigint, NULL::bigint, 0, 0, ''::text, ''::bytea)",
    "SELECT entity, id, state, times, detail, reason, session, seq, job, partition, attempt_no, worker FROM mirror",
]  # fmt: skip


def test_a_prover_of_an_earlier_version_finds_all_it_uses(template: Database, database: Database) -> None:
    """Tables keep their columns, and new ones fill themselves; functions are called as before, with its rights."""
    used = [table for table in grants.PROVER if table != "mirror"]
    with migrated_to(template, "0011") as earlier, earlier.connect(OWNER) as owner:
        before = {row[:2] for row in owner.execute(COLUMNS, [used]).fetchall()}
    with database.connect(OWNER) as owner:
        now = {row[:2]: row[2] for row in owner.execute(COLUMNS, [used]).fetchall()}
    assert before - now.keys() == set()
    assert [name for name, fills_itself in now.items() if name not in before and not fills_itself] == []
    with database.connect(DAEMON) as prover:
        for call in CALLS:
            prover.execute(f"EXPLAIN {call}")
