"""A database of an earlier version gets the functions of this one, and keeps its data."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from prover.stack.roles import OWNER
from tests.journal.helpers import submit_one
from tests.postgres import Database, migrate

pytestmark = pytest.mark.postgres

#: the functions that later migrations make again, as an earlier version had them: here they only complain
EARLIER = """
DROP FUNCTION was_worked_on;
CREATE OR REPLACE FUNCTION give_back_job(p_job uuid, p_reason text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'of an earlier version'; END $$;
DELETE FROM django_migrations WHERE app = 'fleet' AND name >= '0005';
"""
FUNCTIONS = """SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), proacl::text FROM pg_proc p
    WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' ORDER BY 1"""


def functions(owner: psycopg.Connection) -> list[tuple[Any, ...]]:
    return owner.execute(FUNCTIONS).fetchall()


def test_an_earlier_database_is_brought_up_to_date(database: Database) -> None:
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        fresh = functions(owner)
        owner.execute(EARLIER)
        assert functions(owner) != fresh
        migrate(database.url(OWNER))
        assert functions(owner) == fresh
        assert owner.execute("SELECT id::text FROM job").fetchall() == [(job,)]
