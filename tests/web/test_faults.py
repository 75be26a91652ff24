"""What the database refuses has a code, a status and words of its own; only who cannot reach it is told so."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction
from django.test import Client
from django.urls import path
from psycopg import sql

from cuzk_web import faults, urls
from cuzk_web.fleet import commands
from cuzk_web.fleet.models import Command, Job
from cuzk_web.submission.intake import Submitter, admit
from cuzk_web.submission.models import Usage
from cuzk_web.submission.samples import SAMPLES
from prover.stack.postgres import EmbeddedPostgres
from prover.stack.roles import OWNER
from tests.postgres import ROOT, Database

from .conftest import person
from .facts import job, session, worker

pytestmark = pytest.mark.postgres

JSON = {"HTTP_ACCEPT": "application/json"}
#: what Postgres sends, the cause, and the status of the page
STATES = [
    ("08006", "database_unreachable", 503), ("08P01", "database_unreachable", 503),
    ("57P01", "database_unreachable", 503), ("57P02", "database_unreachable", 503),
    ("57P03", "database_unreachable", 503), ("57P05", "database_unreachable", 503),
    ("57014", "database_timeout", 504), ("55P03", "database_timeout", 504),
    ("40001", "database_conflict", 503), ("40P01", "database_conflict", 503), ("40003", "database_conflict", 503),
    ("53100", "database_disk_full", 507), ("53200", "database_exhausted", 503),
    ("53400", "database_exhausted", 503), ("53000", "database_exhausted", 503),
    ("53300", "database_connections", 503),
    ("28P01", "database_login_refused", 503), ("3D000", "database_login_refused", 503),
    ("57P04", "database_login_refused", 503),
]  # fmt: skip
#: errors of the site's own making, some of them OperationalErrors too
OURS = ["54000", "55006", "55000", "58030", "22012", "23505", "42P01", "XX000", "P0001"]


def raising(request, state):
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('test.state', %s, true)", [state])
        cursor.execute("DO $$ BEGIN RAISE 'secret' USING ERRCODE = current_setting('test.state'); END $$")


def sleeping(request):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 20; SELECT pg_sleep(60)")


for view in (raising, sleeping):
    view.login_required = False
urlpatterns = [*urls.urlpatterns, path("raise/<state>", raising), path("sleep", sleeping)]
handler500 = urls.handler500


@pytest.fixture
def broken(db: None, settings: Any) -> Client:
    settings.ROOT_URLCONF = __name__
    return Client(raise_request_exception=False)


@pytest.mark.parametrize(("state", "code", "status"), STATES)
def test_each_state_is_its_cause(broken: Client, state: str, code: str, status: int) -> None:
    answer = broken.get(f"/raise/{state}")
    cause = {cause.code: cause for cause in faults.causes()}[code]
    text = answer.content.decode()
    assert (answer.status_code, code in text, cause.title in text) == (status, True, True)
    assert [other.code for other in faults.causes() if other is not cause and other.title in text] == []
    assert "secret" not in text and "/static/css/app.css" in text
    assert answer.headers.get("Retry-After") == (None if cause.again_s is None else str(cause.again_s))


def test_buttons_get_the_code_as_json(broken: Client) -> None:
    answer = broken.get("/raise/53100", **JSON)
    assert (answer.status_code, answer.json()["code"]) == (507, "database_disk_full")
    assert answer.json()["message"].startswith("The disk of the database is full")


@pytest.mark.parametrize("state", OURS)
def test_every_other_error_is_ours(broken: Client, state: str) -> None:
    answer = broken.get(f"/raise/{state}")
    assert answer.status_code == 500 and "Something failed" in answer.content.decode()


def test_a_statement_that_takes_too_long(broken: Client) -> None:
    answer = broken.get("/sleep")
    assert (answer.status_code, "database_timeout" in answer.content.decode()) == (504, True)


def test_codes_states_and_statuses_are_documented() -> None:
    text = (ROOT / "docs" / "web.md").read_text()
    rows = re.findall(r"^\| (\d{3}) \| `([a-z_]+)` \| (.+?) \|", text, re.M)
    assert {code: int(status) for status, code, _ in rows} == {cause.code: cause.status for cause in faults.causes()}
    for state, cause in faults._CAUSES.items():
        words = f"{state}..." if len(state) == 2 else state
        assert [code for _, code, states in rows if words in re.split(r"[, ]+", states)] == [cause.code]


# -- refused connections: no SQLSTATE ---------------------------------------------------------------------------------


def refusal(url: str, **changed: Any) -> str:
    """The code of the error that a connection ends with."""
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(url, connect_timeout=5, **changed)
    assert caught.value.sqlstate is None
    wrapped = OperationalError()
    wrapped.__cause__ = caught.value
    found, same = faults.fault(caught.value), faults.fault(wrapped)
    assert found is not None and type(found) is type(same)
    return found.code


def test_too_many_connections(postgres: EmbeddedPostgres, database: Database) -> None:
    with postgres.connect() as admin:
        admin.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 0").format(sql.Identifier(database.name)))
    assert refusal(database.url(OWNER)) == "database_connections"


def test_every_connection_of_the_server_is_taken(database: Database) -> None:
    with ExitStack() as stack:
        with pytest.raises(psycopg.OperationalError) as caught:
            for _ in range(1000):
                stack.enter_context(psycopg.connect(database.url(OWNER)))
        assert isinstance(faults.fault(caught.value), faults.DatabaseConnections)


def test_a_wrong_login(database: Database) -> None:
    assert refusal(database.url(OWNER), password="wrong") == "database_login_refused"
    assert refusal(database.url(OWNER), user="nobody_of_this_name") == "database_login_refused"
    assert refusal(database.url(OWNER), dbname="nothing_of_this_name") == "database_login_refused"


def test_a_server_that_is_not_there(database: Database, tmp_path) -> None:
    assert refusal(database.url(OWNER), host="127.0.0.1", port=1) == "database_unreachable"
    assert refusal(database.url(OWNER), host=str(tmp_path)) == "database_unreachable"


def test_a_session_that_is_ended(database: Database) -> None:
    with database.connect() as ended, database.connect() as other:
        other.execute("SELECT pg_terminate_backend(%s)", [ended.info.backend_pid])
        with pytest.raises(psycopg.Error) as first:
            ended.execute("SELECT 1")
        with pytest.raises(psycopg.Error) as second:
            ended.execute("SELECT 1")
    assert [type(faults.fault(one.value)) for one in (first, second)] == [faults.DatabaseUnreachable] * 2


# -- made again -------------------------------------------------------------------------------------------------------


@pytest.fixture
def deadlocks(transactional_db: None, postgres: EmbeddedPostgres) -> Iterator[None]:
    """Who waits first is the one whose transaction a deadlock undoes, after 2 s; `rival` gives way after a minute."""
    with postgres.connect() as admin:
        name = sql.Identifier(connection.settings_dict["NAME"])
        admin.execute(sql.SQL("ALTER DATABASE {} SET deadlock_timeout = '2s'").format(name))
        yield
        admin.execute(sql.SQL("ALTER DATABASE {} RESET deadlock_timeout").format(name))


def deadlocked(postgres: EmbeddedPostgres, holds: str, wants: str, work: Callable[[], Any]) -> Any:
    """What `work` gives: it takes `wants`, waits for `holds` while a rival does the reverse, and is undone once."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)
        finally:
            connections.close_all()

    with postgres.connect(database=connection.settings_dict["NAME"]) as rival, rival.transaction():
        rival.execute("SET LOCAL deadlock_timeout = '60s'")
        rival.execute(f"LOCK TABLE {holds} IN EXCLUSIVE MODE")
        thread = threading.Thread(target=run)
        thread.start()
        await_blocked_by(postgres, rival)
        rival.execute(f"LOCK TABLE {wants} IN SHARE MODE")  # granted when `work` was undone
        assert results == []
    thread.join(20)
    (result,) = results
    return result


def await_blocked_by(postgres: EmbeddedPostgres, rival: psycopg.Connection) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    with postgres.connect() as watching:
        until = time.monotonic() + 20
        while watching.execute(query, [rival.info.backend_pid]).fetchone() == (0,):
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.usefixtures("deadlocks")
def test_a_submission_is_made_again_after_a_deadlock(postgres: EmbeddedPostgres) -> None:
    olga = person("olga")
    made = deadlocked(
        postgres, "submission_usage", "job", lambda: admit(SAMPLES["window-post"].read(), Submitter(olga.pk, "olga"))
    )
    assert made.created and Job.objects.get().pk == made.job
    assert Usage.objects.get().bytes == len(bytes(Job.objects.get().jobinput.request))


@pytest.mark.usefixtures("deadlocks")
def test_a_command_is_made_again_after_a_deadlock(postgres: EmbeddedPostgres) -> None:
    olga, one = person("olga"), worker(session())
    asked = deadlocked(postgres, "django_admin_log", "command", lambda: commands.ask(olga, one.pk, "pause"))
    assert asked.created and Command.objects.get() == asked.command


@pytest.mark.usefixtures("deadlocks")
def test_a_cancel_is_made_again_after_a_deadlock(postgres: EmbeddedPostgres) -> None:
    olga, one = person("olga"), job()
    outcome = deadlocked(postgres, "django_admin_log", "job", lambda: commands.cancel(olga, one.pk))
    one.refresh_from_db()
    assert (outcome, one.state) == (commands.Cancelled.AT_ONCE, "cancelled")


@pytest.mark.parametrize(("state", "times"), [("40001", 2), ("40P01", 2), ("53100", 1), ("57014", 1), ("08006", 1)])
@pytest.mark.parametrize("within", [False, True])
def test_only_a_conflict_is_made_again_and_once(transactional_db: None, state: str, times: int, within: bool) -> None:
    calls: list[str] = []

    @faults.made_again
    def work() -> None:
        calls.append(state)
        with connection.cursor() as cursor:
            cursor.execute(f"DO $$ BEGIN RAISE 'odd' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(OperationalError), transaction.atomic() if within else nullcontext():
        work()
    assert len(calls) == (1 if within else times)
