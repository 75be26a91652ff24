"""The web's login can read the prover's tables and write none of them; the prover's cannot touch the web's."""

from __future__ import annotations

import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from prover.stack.roles import DAEMON, SITE
from tests.postgres import Database

pytestmark = pytest.mark.postgres
SHARED = (
    "session device worker holding job job_input attempt transition proof delivery sample anomaly command counter"
    " job_search"
).split()  # fmt: skip


def test_web_reads_and_writes_nothing(database: Database) -> None:
    with database.connect(SITE) as web:
        for table in SHARED:
            name = sql.Identifier(table)
            web.execute(sql.SQL("SELECT * FROM {} LIMIT 1").format(name))
            for statement in ("INSERT INTO {} DEFAULT VALUES", "DELETE FROM {}", "TRUNCATE {}"):
                with pytest.raises(InsufficientPrivilege):
                    web.execute(sql.SQL(statement).format(name))
            for right in ("INSERT", "UPDATE", "REFERENCES"):
                asked = web.execute("SELECT has_any_column_privilege(%s, %s)", [table, right]).fetchone()
                assert asked == (False,), (table, right)


CALLS = (
    "site_move('job', 'x', 'done', NULL)",
    "site_event(now(), 'job', 'x', '', 'done', NULL, NULL, NULL, NULL, NULL, '{}')",
    "lose_session(gen_random_uuid(), 'x')", "give_back_job(gen_random_uuid(), 'x')", "begin_watch(now())",
    "supersede_session(gen_random_uuid())", "count_end('x', 'done')", "lock_site()", "nextval('job_number')",
)  # fmt: skip


def test_web_cannot_call_what_is_behind_the_named_functions(database: Database) -> None:
    with database.connect(SITE) as web:
        for call in CALLS:
            with pytest.raises(InsufficientPrivilege):
                web.execute(f"SELECT {call}")  # type: ignore[arg-type]


BEYOND = (
    "SELECT password FROM auth_user", "SELECT * FROM django_session", "DELETE FROM job", "DELETE FROM transition",
    "UPDATE transition SET reason = 'x'", "UPDATE proof SET proof = ''",
    "INSERT INTO job (id) VALUES (gen_random_uuid())",
    "UPDATE job SET request_digest = ''", "UPDATE job_input SET request = ''", "INSERT INTO command DEFAULT VALUES",
    "CREATE TABLE mine ()", "TRUNCATE transition",
)  # fmt: skip


def test_prover_can_do_no_more_than_the_journal_needs(database: Database) -> None:
    with database.connect(DAEMON) as prover:
        for statement in BEYOND:
            with pytest.raises(InsufficientPrivilege):
                prover.execute(statement)  # type: ignore[arg-type]


def test_web_has_its_own_tables(database: Database) -> None:
    with database.connect(SITE) as web:
        web.execute("INSERT INTO django_session VALUES ('key', 'data', now())")
        assert web.execute("DELETE FROM django_session").rowcount == 1
        with pytest.raises(InsufficientPrivilege):
            web.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('x', 'y', now())")


def test_a_definer_function_ignores_the_callers_search_path(database: Database) -> None:
    """A table of the same name in a schema that the caller puts first is not what the function writes to."""
    with database.connect() as owner:
        owner.execute("CREATE SCHEMA trap; GRANT ALL ON SCHEMA trap TO cuzk_web")
    with database.connect(SITE) as web:
        web.execute("CREATE TABLE trap.session (LIKE public.session); SET search_path = trap, public")
        web.execute("SELECT mark_lost()")
        assert web.execute("SELECT count(*) FROM trap.session").fetchone() == (0,)
        assert web.execute("SELECT count(*) FROM public.session").fetchone() == (1,)
