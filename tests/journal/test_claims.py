"""Leases: each job to one session, in the order of the queue, and back."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from prover.journal import claims
from prover.journal.claims import claim
from prover.pipeline.sources import ClaimedJob, PriorAttempt
from prover.stack.roles import DAEMON, OWNER, SITE
from tests.journal.helpers import PROOF, assert_fold_equals_tables, eventually, running, submit, submit_one
from tests.journal.test_submission import at_once
from tests.postgres import Database

pytestmark = pytest.mark.postgres


def test_order_of_the_queue(database: Database, tmp_path: Path) -> None:
    with database.connect(SITE) as web:
        submit(web, "low", priority=1)
        submit(web, "late", priority=3, deadline="2030-01-02")
        submit(web, "soon", priority=3, deadline="2030-01-01")
        submit(web, "none", priority=3)
        submit(web, "critical", priority=4)
    with running(database, tmp_path) as prover:
        assert prover.journal.claim(0) == []
        order = [job.info.request_id for _ in range(5) for job in prover.take()]
        assert order == ["critical", "soon", "late", "none", "low"]
        assert prover.take() == []


def test_two_provers_at_once_share_and_never_overlap(database: Database, tmp_path: Path) -> None:
    jobs = {submit_one(database) for _ in range(40)}
    with running(database, tmp_path, "a") as a, running(database, tmp_path, "b") as b:

        def claim_all(session: str) -> list[str]:
            with psycopg.connect(database.url(DAEMON), autocommit=True) as connection:
                return [job.info.id for _ in range(10) for job in claim(connection, session, 3)]

        taken = at_once([lambda s=s: claim_all(s) for s in (a.session, b.session, a.session, b.session)])
        flat = [job for part in taken for job in part]
        assert len(flat) == len(set(flat)) == 40
        assert set(flat) == jobs


def test_a_session_that_is_not_online_claims_nothing(database: Database, tmp_path: Path) -> None:
    submit_one(database)
    with running(database, tmp_path) as prover:
        prover.tracker.session_stopped("test")
        prover.journal.flush()
        assert prover.take() == []


def test_given_back_and_taken_by_another_with_the_proofs_that_exist(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2)
    with running(database, tmp_path, "a") as a, running(database, tmp_path, "b") as b:
        (claimed,) = a.take()
        a.tracker.job_loading(job)
        a.tracker.job_running(job)
        a.prove_partition(job, 0, a.workers[0])
        a.tracker.new_attempt(job, 1)
        assert b.take() == []
        a.tracker.job_released(job, "draining")
        assert a.journal.flush()
        (again,) = b.take()
        assert again.proofs == {0: PROOF}
        assert again.attempts == {0: PriorAttempt(1, "done"), 1: PriorAttempt(1, "lost")}
        assert (again.info.id, again.losses) == (claimed.info.id, 0)
        b.prove(again)
        assert b.journal.flush()
        assert assert_fold_equals_tables(database).ended == {"window-post done": 1}
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT lease_epoch, session_id::text FROM job").fetchone() == (2, b.session)
        assert owner.execute("SELECT partition, attempt_no FROM attempt ORDER BY 1, 2").fetchall() == [
            (0, 1), (1, 1), (1, 2),
        ]  # fmt: skip


def test_a_submission_wakes_the_prover(database: Database, tmp_path: Path) -> None:
    with running(database, tmp_path) as prover:
        submit_one(database)
        eventually(lambda: prover.control.woken and prover.journal.depth() == 1)
        prover.take()
        eventually(lambda: prover.journal.depth() == 0)


def test_a_job_that_was_given_back_is_not_moved_any_more(database: Database, tmp_path: Path) -> None:
    """The old holder's tracker still knows it; its moves leave a mark in the log, and the new holder is undisturbed."""
    job = submit_one(database)
    with running(database, tmp_path, "a") as a, running(database, tmp_path, "b") as b:
        a.take()
        a.tracker.job_loading(job)
        a.tracker.job_released(job, "draining")
        a.journal.flush()
        (claimed,) = b.take()
        a.tracker.new_attempt(job)
        a.tracker.job_cancelled(job, by="bob")
        a.journal.flush()
        b.prove(claimed)
        b.journal.flush()
        assert assert_fold_equals_tables(database).ended == {"window-post done": 1}
    with database.connect(OWNER) as owner:
        marks = owner.execute("SELECT count(*) FROM transition WHERE reason = 'stale_lease'").fetchone()[0]
        assert marks >= 1
        assert owner.execute("SELECT count(*) FROM anomaly WHERE code = 'stale_lease'").fetchone() == (marks,)


def test_the_oldest_that_has_waited_long_enough(database: Database, tmp_path: Path) -> None:
    with database.connect(SITE) as web, database.connect(OWNER) as owner:
        for name, priority in [("high", 3), ("low", 1), ("normal", 2), ("young", 1)]:
            submit(web, name, priority=priority)
        owner.execute("UPDATE job SET submitted_at = submitted_at - interval '1 hour' WHERE request_id <> 'young'")
    with running(database, tmp_path) as prover:
        oldest = [prover.journal.claim_oldest(most, 1800.0) for most in (1, 1, 2, 2)]
        assert [[job.info.request_id for job in jobs] for jobs in oldest] == [["low"], [], ["normal"], []]
        assert [job.info.request_id for job in prover.take(9)] == ["high", "young"]


def test_nobody_waits_for_a_job_whose_request_travels(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel is asked of the prover at once; what it leased is read when the database is back."""
    job = submit_one(database)
    travels = claims.read
    with running(database, tmp_path) as prover, database.connect(SITE) as web:

        def slowly(connection: psycopg.Connection, leased: claims.Leased) -> ClaimedJob:
            web.execute("SET lock_timeout = '1s'")
            assert web.execute("SELECT cancel_job(%s, NULL, 'olga')", [job]).fetchone() == ("requested",)
            raise psycopg.OperationalError("the line is cut")

        monkeypatch.setattr(claims, "read", slowly)
        assert prover.journal.claim(1) == []
        monkeypatch.setattr(claims, "read", travels)
        assert [claimed.info.id for claimed in prover.journal.claim(1)] == [job]
        assert prover.journal.claim(1) == []
