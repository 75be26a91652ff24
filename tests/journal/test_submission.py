"""submit_job, request_command and cancel_job: idempotent, numbered, dense, whoever calls at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from prover.stack.roles import DAEMON, OWNER, SITE
from tests.journal.helpers import assert_fold_equals_tables, eventually, running, submit, submit_one
from tests.postgres import Database

pytestmark = pytest.mark.postgres
NOBODY = "11111111-1111-1111-1111-111111111111"


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Run the calls in threads that begin together."""
    barrier, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def run(index: int) -> None:
        barrier.wait()
        answers[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_same_id_same_content_is_the_same_job(database: Database) -> None:
    with database.connect(SITE) as web, database.connect(DAEMON) as cli:
        first = submit(web, "wdpost-1000-0")
        again = submit(cli, "wdpost-1000-0")
    assert (first[0], again[0]) == ("created", "existing")
    assert first[1:3] == again[1:3]
    assert_fold_equals_tables(database)


def test_same_id_other_content_is_a_conflict_that_names_the_digest(database: Database) -> None:
    with database.connect(SITE) as web:
        _, job, _, _, digest = submit(web, "r", b"one")
        assert submit(web, "r", b"two") == ("conflict", job, 1, "queued", digest)
        assert web.execute("SELECT count(*) FROM job").fetchone() == (1,)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_after_a_failure_or_cancel_the_same_id_makes_a_new_job(database: Database, end: str) -> None:
    with database.connect(SITE) as web, database.connect(OWNER) as owner:
        first = submit(web, "r")
        owner.execute("UPDATE job SET state = %s, ended_at = now()", [end])
        assert submit(web, "r", b"other")[0] == "created"
        assert web.execute("SELECT count(*), count(DISTINCT id) FROM job").fetchone() == (2, 2)
        assert first[2] == 1


def test_a_completed_job_is_found(database: Database) -> None:
    with database.connect(SITE) as web, database.connect(OWNER) as owner:
        first = submit(web, "r")
        owner.execute("UPDATE job SET state = 'done', ended_at = now()")
        assert submit(web, "r")[:4] == ("existing", first[1], 1, "done")


def test_race_of_one_id(database: Database) -> None:
    with database.connect(SITE) as a, database.connect(SITE) as b, database.connect(DAEMON) as c:
        answers = at_once([lambda x=x: submit(x, "r") for x in (a, b, c)])
    assert sorted(row[0] for row in answers) == ["created", "existing", "existing"]
    assert len({row[1] for row in answers}) == 1
    assert_fold_equals_tables(database)


def test_race_of_many_ids_leaves_a_dense_log(database: Database) -> None:
    connections = [psycopg.connect(database.url(SITE), autocommit=True) for _ in range(6)]
    try:
        at_once([lambda c=c: [submit(c) for _ in range(15)] for c in connections])
    finally:
        for connection in connections:
            connection.close()
    assert_fold_equals_tables(database)
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT count(DISTINCT number), max(seq) FROM job, transition").fetchone() == (90, 90)


def test_command_reaches_the_prover_and_is_answered_once(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        (command,) = web.execute(
            "SELECT request_command('pause', %s, NULL, 'bob')::text", [prover.workers[1]]
        ).fetchone()
        assert prover.journal.flush()
        eventually(lambda: prover.control.commands)
        assert [(c.id, c.action, c.target, c.by) for c in prover.control.commands] == [
            (command, "pause", prover.workers[1], "bob")
        ]
        prover.journal.flush()
        row = web.execute("SELECT state, outcome, answered_at > requested_at, prover FROM command").fetchone()
        assert row == ("done", "as you wish", True, "prover-a")
        threading.Event().wait(2.5)  # more looks
        assert len(prover.control.commands) == 1
        assert_fold_equals_tables(database)


@pytest.mark.parametrize(
    "action, target", [("pause", "nobody/0/0"), ("cancel", "11111111-1111-1111-1111-111111111111")]
)
def test_command_to_nobody_is_refused(database: Database, action: str, target: str) -> None:
    with database.connect(SITE) as web, pytest.raises(psycopg.errors.NoDataFound):
        web.execute("SELECT request_command(%s, %s, NULL, 'bob')", [action, target])


def test_unknown_action_is_refused(database: Database) -> None:
    with database.connect(SITE) as web, pytest.raises(psycopg.errors.InvalidParameterValue):
        web.execute("SELECT request_command('explode', 'x', NULL, 'bob')")


def test_cancel(database: Database, tmp_path: Path) -> None:
    """Queued: at once. Leased: by a command to who holds it. Ended: nothing."""
    cancel = "SELECT cancel_job(%s, NULL, 'bob')"
    queued = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        assert web.execute(cancel, [queued]).fetchone() == ("cancelled",)
        assert web.execute(cancel, [queued]).fetchone() == ("ended",)
        assert prover.take() == []
        leased = submit_one(database)
        prover.take()
        assert web.execute(cancel, [leased]).fetchone() == ("requested",)
        made = web.execute(
            "SELECT target, prover FROM command WHERE action = 'cancel' ORDER BY requested_at"
        ).fetchall()
        assert made == [(queued, "site"), (leased, "prover-a")]
        with pytest.raises(psycopg.errors.NoDataFound):
            web.execute(cancel, [NOBODY])
        prover.journal.flush()
        state = assert_fold_equals_tables(database)
        assert state.ended == {"window-post cancelled": 1}
