"""A database of an earlier version gets the functions of this one, and keeps its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from prover.stack.roles import OWNER
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
    with migrated_to(template, "0016") as earlier:
        with earlier.connect(OWNER) as owner:
            owner.execute(WAITING)
            with pytest.raises(psycopg.errors.RaiseException, match="earlier"):
                owner.execute("SELECT mark_lost()")
        migrate(earlier.url(OWNER))
        assert functions(earlier) == functions(database)
        with earlier.connect(OWNER) as owner:
            owner.execute("SELECT mark_lost()")
