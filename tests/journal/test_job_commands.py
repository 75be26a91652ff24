"""What is asked of jobs: at once where nobody has them, else by who has; settled when that one has gone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from prover.journal.client import Client, JobUnknown
from prover.pipeline.attempts import AttemptKey
from prover.stack.roles import DAEMON, OWNER, SITE
from prover.states import Action, Attempt, Command, Entity, Job
from tests.journal.helpers import PROOF, assert_fold_equals_tables, eventually, running, submit, submit_one
from tests.journal.test_cancel import deaf
from tests.journal.test_loss import advance
from tests.postgres import Database

pytestmark = pytest.mark.postgres
TOMORROW_US = (int(time.time()) + 86_400) * 1_000_000


def ask(web: psycopg.Connection, action: str, job: str, **arguments: Any) -> tuple[Any, ...]:
    row = web.execute(
        "SELECT state, outcome, retried_as::text FROM request_job(%s, %s, NULL, 'olga', %s)",
        [action, job, json.dumps(arguments)],
    ).fetchone()
    assert row is not None
    return row


def job_row(owner: psycopg.Connection, job: str, fields: str = "state, priority, to_us(deadline)") -> Any:
    return owner.execute(f"SELECT {fields} FROM job WHERE id = %s", [job]).fetchone()  # type: ignore[arg-type]


def commands(owner: psycopg.Connection) -> list[tuple[Any, ...]]:
    return owner.execute(
        "SELECT action, prover, state, requested_by_name FROM command ORDER BY requested_at"
    ).fetchall()


def test_a_waiting_job_is_acted_upon_while_every_prover_is_offline(database: Database) -> None:
    job = submit_one(database, priority=2)
    with database.connect(SITE) as web, database.connect(OWNER) as owner:
        assert ask(web, "hold", job)[0] == "done" and job_row(owner, job, "state") == ("held",)
        assert ask(web, "hold", job) == ("refused", "it is held", None)
        assert ask(web, "priority", job, priority=4)[0] == "done"
        assert ask(web, "deadline", job, deadline_us=TOMORROW_US)[0] == "done"
        assert job_row(owner, job) == ("held", 4, TOMORROW_US)
        assert ask(web, "release", job)[0] == "done"
        assert ask(web, "deadline", job, deadline_us=None)[0] == "done"
        assert job_row(owner, job) == ("queued", 4, None)
        assert ask(web, "cancel", job)[0] == "done"
        assert ask(web, "priority", job, priority=1) == ("refused", "it is cancelled", None)
        made = [
            action for action, prover, state, by in commands(owner) if (prover, state, by) == ("site", "done", "olga")
        ]
        assert made == ["hold", "priority", "deadline", "release", "deadline", "cancel"]
    view = assert_fold_equals_tables(database).get(Entity.JOB, job)
    assert (view.detail["priority"], view.detail["deadline_us"], view.detail["by"]) == (4, None, "olga")
    assert view.times["noted"] > view.times["held"]


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("priority", {}), ("priority", {"priority": 0}), ("priority", {"priority": 5}), ("priority", {"priority": "4"}),
        ("priority", {"priority": None}), ("deadline", {}), ("deadline", {"deadline_us": "soon"}),
        ("deadline", {"deadline_us": -1}), ("deadline", {"deadline_us": 1.5}), ("deadline", {"deadline_us": 10**18}),
        ("bake", {}),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense(database: Database, action: str, arguments: dict[str, Any]) -> None:
    job = submit_one(database)
    with database.connect(SITE) as web, pytest.raises(psycopg.errors.InvalidParameterValue):
        ask(web, action, job, **arguments)


def test_a_deadline_that_is_over_is_refused(database: Database) -> None:
    job = submit_one(database)
    with database.connect(SITE) as web:
        assert ask(web, "deadline", job, deadline_us=5) == ("refused", "that deadline is over", None)


def test_the_queue_is_in_the_order_that_was_asked_for(database: Database, tmp_path: Path) -> None:
    jobs = [submit_one(database, priority=2) for _ in range(5)]
    with database.connect(SITE) as web:
        ask(web, "priority", jobs[3], priority=3)
        ask(web, "deadline", jobs[2], deadline_us=TOMORROW_US)
        ask(web, "hold", jobs[0])
    with running(database, tmp_path) as prover:
        claimed = [job.info for job in prover.take(5)]
    assert [info.id for info in claimed] == [jobs[3], jobs[2], jobs[1], jobs[4]]
    assert (claimed[0].priority, claimed[1].deadline_us) == (3, TOMORROW_US)


def test_a_held_job_is_its_provers_to_change(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, priority=2)
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner, database.connect(SITE) as web:
        heard = deaf(prover)
        assert prover.take()
        advance(prover, job, "pending")
        assert prover.journal.flush()
        assert ask(web, "priority", job, priority=3) == ("pending", None, None)
        (command,) = eventually(lambda: heard)
        assert (command.kind, command.action, command.arguments) == ("job", "priority", {"priority": 3})
        assert job_row(owner, job, "state, priority") == ("running", 2)
        assert prover.tracker.job_noted(job, "priority", {"priority": 3, "by": command.by})
        assert prover.tracker.job_noted(job, "deadline", {"deadline_us": TOMORROW_US, "by": command.by})
        assert not prover.tracker.job_noted(job, "weather", {})
        prover.tracker.command(command, Command.DONE, "done")
        assert prover.journal.flush()
        assert job_row(owner, job) == ("running", 3, TOMORROW_US)
        assert prover.tracker.job_released(job, "held", by="olga", held=True)
        assert prover.journal.flush()
        assert job_row(owner, job, "state, session_id") == ("held", None)
        assert prover.take() == []
        assert ask(web, "release", job)[0] == "done"
        (again,) = prover.take()
        assert (again.info.priority, again.info.deadline_us) == (3, TOMORROW_US)
    state = assert_fold_equals_tables(database)
    assert state.get(Entity.ATTEMPT, AttemptKey(job).id).state == Attempt.LOST


@pytest.mark.parametrize("action", [Action.HOLD, Action.PRIORITY, Action.DEADLINE])
def test_what_its_prover_did_not_live_to_do_is_done_when_the_job_is_back(
    database: Database, tmp_path: Path, action: Action
) -> None:
    arguments = {Action.PRIORITY: {"priority": 1}, Action.DEADLINE: {"deadline_us": TOMORROW_US}}.get(action, {})
    job = submit_one(database, priority=2)
    with database.connect(OWNER) as owner, database.connect(SITE) as web:
        with running(database, tmp_path) as prover:
            deaf(prover)
            assert prover.take()
            advance(prover, job, "running")
            assert prover.journal.flush()
            assert ask(web, action, job, **arguments)[0] == "pending"
            owner.execute("SELECT supersede_session(%s)", [prover.session])
        with running(database, tmp_path) as successor:
            owner.execute("SELECT mark_lost()")
            eventually(lambda: commands(owner)[0][2] == "done")
            claimed = successor.take()
            expected = {Action.HOLD: [], Action.PRIORITY: [(1, None)], Action.DEADLINE: [(2, TOMORROW_US)]}[action]
            assert [(one.info.priority, one.info.deadline_us) for one in claimed] == expected
    assert_fold_equals_tables(database)


def test_a_retry_is_a_new_job_with_the_proofs_that_exist(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2, priority=3, content=b"content")
    with running(database, tmp_path) as prover, database.connect(SITE) as web, database.connect(OWNER) as owner:
        assert ask(web, "retry", job) == ("refused", "it is queued", None)
        assert prover.take()
        prover.tracker.job_loading(job)
        prover.tracker.job_running(job)
        prover.prove_partition(job, 1, prover.workers[0])
        prover.tracker.job_completed(job, ValueError("odd"))
        assert prover.journal.flush()
        state, outcome, retried_as = ask(web, "retry", job)
        assert (state, outcome) == ("done", "retried as job 2, with 1 of 2 proofs")
        row = job_row(owner, retried_as, "retry_of_id::text, partitions_done, priority, submitted_by, state")
        assert row == (job, 1, 3, "olga", "queued")
        (again,) = prover.take()
        assert again.request == b"content" and again.proofs == {1: PROOF} and again.attempts == {}
        assert ask(web, "retry", job) == ("refused", "job 2 has its request id and is queued", None)
        owner.execute("DELETE FROM job_input WHERE job_id = %s", [job])
        assert ask(web, "retry", job)[1] == "its request is not kept any more"
    assert_fold_equals_tables(database)


def test_proofs_that_may_be_what_was_wrong_are_not_kept(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(SITE) as web, database.connect(OWNER) as owner:
        (claimed,) = prover.take()
        prover.prove(claimed, end=False)
        prover.tracker.job_completed(job, ValueError("odd"))
        assert prover.journal.flush()
        owner.execute("UPDATE job SET error_code = 'proof_refused'")
        assert ask(web, "retry", job)[1] == "retried as job 2, with 0 of 1 proofs"


def test_a_command_of_a_job_that_ended_is_refused_once_its_prover_has_gone(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner, database.connect(SITE) as web:
        deaf(prover)
        (claimed,) = prover.take()
        prover.prove(claimed, end=False)
        assert prover.journal.flush()
        assert ask(web, "priority", job, priority=4)[0] == "pending"
        prover.journal.put_delivery(job, PROOF)
        prover.tracker.job_completed(job)
        assert prover.journal.flush()
        owner.execute("SELECT supersede_session(%s)", [prover.session])
        owner.execute("SELECT mark_lost()")
        assert owner.execute("SELECT state, outcome FROM command").fetchall() == [
            ("refused", "it had ended before: done")
        ]
    assert_fold_equals_tables(database)


def test_from_the_command_line(database: Database) -> None:
    with database.connect(SITE) as web:
        job = str(submit(web)[1])
    client = Client(database.url(DAEMON))
    assert client.request_job("hold", job, "olga", {}).state == "done"
    assert client.request_job("hold", job, "olga", {}).outcome == "it is held"
    with pytest.raises(JobUnknown):
        client.request_job("hold", "00000000-0000-0000-0000-000000000001", "olga", {})
    client.close()
    assert assert_fold_equals_tables(database).get(Entity.JOB, job).state == Job.HELD
