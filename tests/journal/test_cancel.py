"""A wish to cancel a job is executed once and answered, whatever becomes of the prover that it was asked of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from prover.pipeline.sources import EngineCommand
from prover.stack.roles import OWNER, SITE
from prover.states import Command, Entity
from tests.journal.helpers import PROOF, Prover, assert_fold_equals_tables, eventually, running, submit_one
from tests.journal.test_loss import STEPS, advance
from tests.journal.test_submission import at_once
from tests.postgres import Database

pytestmark = pytest.mark.postgres
CANCEL = "SELECT cancel_job(%s, NULL, 'olga')"
CANCELLED = {"window-post cancelled": 1}


def deaf(prover: Prover) -> list[EngineCommand]:
    """Commands reach the prover, and nothing becomes of them; returns where they are heard."""
    heard: list[EngineCommand] = []
    prover.control.command = heard.append  # type: ignore[method-assign]
    return heard


def wish(database: Database, job: str) -> None:
    with database.connect(SITE) as web:
        assert web.execute(CANCEL, [job]).fetchone() == ("requested",)


def commands(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT state, outcome, answered_at IS NOT NULL, detail->>'by' FROM command ORDER BY requested_at"
    ).fetchall()


ANSWERED = ("done", "cancelled once its prover held it no more", True, "olga")


def assert_cancelled_once(database: Database, losses: int = 0, *more: tuple[object, ...]) -> None:
    assert assert_fold_equals_tables(database).ended == CANCELLED
    with database.connect(OWNER) as owner:
        row = owner.execute("SELECT state, detail->>'by', ended_at IS NOT NULL, losses, reason FROM job").fetchone()
        assert row == ("cancelled", "olga", True, losses, "cancelled")
        assert commands(owner) == [ANSWERED, *more]
        assert owner.execute("SELECT count(*) FROM anomaly").fetchone() == (0,)


@pytest.mark.parametrize(
    "until, taken",
    [("leased", False), ("leased", True), ("loading", False), ("running", True), ("pending", False), ("device", True)],
)
def test_a_prover_that_dies_before_it_executes_the_wish(
    database: Database, tmp_path: Path, until: str, taken: bool
) -> None:
    """The job is not proved by the next session: it ends as it was wished, at once."""
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        with running(database, tmp_path) as prover:
            heard = deaf(prover)
            assert prover.take()
            if until != "leased":
                advance(prover, job, until)
            assert prover.journal.flush()
            wish(database, job)
            (command,) = eventually(lambda: heard)
            if taken:
                prover.tracker.command(command, Command.TAKEN)
                assert prover.journal.flush()
            assert owner.execute("SELECT supersede_session(%s)", [prover.session]).fetchone() == (True,)
        worked_on = until in STEPS and STEPS.index(until) > STEPS.index("pending")
        assert_cancelled_once(database, losses=int(worked_on))
        with running(database, tmp_path) as successor:
            assert successor.take() == []
            owner.execute("SELECT mark_lost()")
        assert successor.control.commands == []
    assert_cancelled_once(database, losses=int(worked_on))


def test_a_wish_wins_over_the_last_loss(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with database.connect(OWNER) as owner, running(database, tmp_path) as prover:
        owner.execute("UPDATE job SET losses = 2")
        deaf(prover)
        assert prover.take()
        advance(prover, job, "device")
        assert prover.journal.flush()
        wish(database, job)
        owner.execute("SELECT supersede_session(%s)", [prover.session])
    assert_cancelled_once(database, losses=3)


def test_a_job_that_is_given_back_is_not_claimed_but_cancelled(database: Database, tmp_path: Path) -> None:
    """Its prover drains, and the wish crosses the release: neither it nor another prover has the job any more."""
    job = submit_one(database)
    with running(database, tmp_path / "a", "a") as a, running(database, tmp_path / "b", "b") as b:
        heard = deaf(a)
        assert a.take()
        advance(a, job, "pending")
        assert a.journal.flush()
        wish(database, job)
        eventually(lambda: heard)
        with database.connect(OWNER) as owner:
            a.tracker.job_released(job, "draining")
            assert a.journal.flush()
            assert b.take() == [] and a.take() == []
            eventually(lambda: owner.execute("SELECT state FROM job").fetchone() == ("cancelled",))  # by who looks
        assert b.control.commands == []
    assert_cancelled_once(database)


def wish_and_release(database: Database, prover: Prover, job: str) -> None:
    """The wish crosses the release, and the prover's own heartbeat stands still: only the test looks."""
    deaf(prover)
    assert prover.take()
    advance(prover, job, "pending")
    assert prover.journal.flush()
    wish(database, job)
    prover.journal._heartbeat._process.send_signal(19)  # SIGSTOP
    prover.tracker.job_released(job, "draining")
    assert prover.journal.flush()


def test_many_observers_settle_a_wish_once(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner:
        wish_and_release(database, prover, job)

        def look() -> int:
            with database.connect(SITE) as web:
                return sum(web.execute("SELECT mark_lost()").fetchone()[0] for _ in range(5))

        at_once([look] * 4)
        prover.journal._heartbeat._process.send_signal(18)
        assert owner.execute("SELECT state FROM job").fetchone() == ("cancelled",)
    assert_cancelled_once(database)


def test_a_job_that_somebody_has_in_hand_is_settled_later(database: Database, tmp_path: Path) -> None:
    """Who looks waits for no job: it would hold the site meanwhile, and its heartbeat could not renew the lease."""
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(OWNER) as other, database.connect(OWNER) as owner:
        wish_and_release(database, prover, job)
        owner.execute("SET lock_timeout = 2000")
        with other.transaction():
            other.execute("SELECT FROM job WHERE id = %s FOR UPDATE", [job])
            owner.execute("SELECT mark_lost()")
            assert commands(owner) == [("pending", None, False, "olga")]
        owner.execute("SELECT mark_lost()")
        prover.journal._heartbeat._process.send_signal(18)
    assert_cancelled_once(database)


def test_asked_again_of_a_job_that_was_given_back(database: Database, tmp_path: Path) -> None:
    """The second wish is executed by the database, and answers the first one too."""
    job = submit_one(database)
    with running(database, tmp_path) as prover:
        wish_and_release(database, prover, job)
        with database.connect(SITE) as web:
            assert web.execute(CANCEL, [job]).fetchone() == ("cancelled",)
            assert web.execute(CANCEL, [job]).fetchone() == ("ended",)
        prover.journal._heartbeat._process.send_signal(18)
    assert_cancelled_once(database, 0, ("done", "cancelled", True, "olga"))


def cancelled(prover: Prover, job: str) -> None:
    prover.tracker.job_cancelled(job, by="olga")


def completed(prover: Prover, job: str) -> None:
    prover.journal.put_delivery(job, PROOF)
    assert prover.tracker.job_completed(job)


@pytest.mark.parametrize(
    "end, answer",
    [
        (cancelled, ("done", "cancelled", True, "olga")),
        (completed, ("refused", "it had ended before: done", True, "olga")),
    ],
)
def test_a_wish_whose_answer_died_with_the_prover(
    database: Database, tmp_path: Path, end: Callable[[Prover, str], None], answer: tuple[object, ...]
) -> None:
    """The job ended in the log, the command did not: nobody waits for its answer for ever."""
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        with running(database, tmp_path) as prover:
            deaf(prover)
            (claimed,) = prover.take()
            prover.prove(claimed, end=False)
            assert prover.journal.flush()
            wish(database, job)
            end(prover, job)
            assert prover.journal.flush()
            owner.execute("SELECT mark_lost()")
            assert commands(owner) == [("pending", None, False, "olga")]  # its prover lives: it answers
            owner.execute("SELECT supersede_session(%s)", [prover.session])
            owner.execute("SELECT mark_lost()")
            assert commands(owner) == [answer]
        state = assert_fold_equals_tables(database)
        assert sum(state.ended.values()) == 1
        assert {view.state for view in state.views[Entity.COMMAND].values()} == {answer[0]}


def test_a_wish_is_handed_to_who_holds_the_job(database: Database, tmp_path: Path) -> None:
    """And to nobody else, also when it was asked of the prover that had the job before."""
    job = submit_one(database)
    with running(database, tmp_path / "a", "a") as a, running(database, tmp_path / "b", "b") as b:
        at_a, at_b = deaf(a), deaf(b)
        assert b.take()
        assert b.journal.flush()
        with database.connect(OWNER) as owner:
            wish(database, job)
            owner.execute("UPDATE command SET prover = 'a'")
        (command,) = eventually(lambda: at_b)
        assert (command.action, command.target, command.by) == ("cancel", job, "olga")
        assert at_a == []
        b.tracker.job_cancelled(job, by=command.by)
        b.tracker.command(command, Command.TAKEN)
        b.tracker.command(command, Command.DONE, "cancelled")
        assert b.journal.flush()
    assert assert_fold_equals_tables(database).ended == CANCELLED


def test_nothing_can_be_wished_of_a_job_that_has_ended(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(SITE) as web:
        (claimed,) = prover.take()
        prover.prove(claimed)
        assert prover.journal.flush()
        assert web.execute(CANCEL, [job]).fetchone() == ("ended",)
        with pytest.raises(psycopg.errors.NoDataFound, match="nobody to cancel"):
            web.execute("SELECT request_command('cancel', %s, NULL, 'olga')", [job])
        assert web.execute("SELECT count(*) FROM command").fetchone() == (0,)
