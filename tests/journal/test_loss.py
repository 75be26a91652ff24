"""A session whose lease ran out: lost with all it held, its work goes on elsewhere, what it says later is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.pipeline.attempts import AttemptKey
from prover.stack.roles import OWNER, SITE
from tests.journal.helpers import (
    PROOF,
    Prover,
    assert_fold_equals_tables,
    await_grown_up,
    eventually,
    running,
    submit_one,
    watched,
)
from tests.journal.test_submission import at_once
from tests.postgres import Database

pytestmark = pytest.mark.postgres


def expire(database: Database, prover: Prover) -> int:
    """Let the lease run out, as if the heart had stopped, and let the web look."""
    prover.journal._heartbeat._process.send_signal(19)  # SIGSTOP
    with database.connect(OWNER) as owner, database.connect(SITE) as web:
        web.execute("SELECT mark_lost()")
        owner.execute("UPDATE session SET lease_until = now() - interval '1 second' WHERE id = %s", [prover.session])
        watched(owner)
        (count,) = web.execute("SELECT mark_lost()").fetchone()
    prover.journal._heartbeat._process.send_signal(18)  # SIGCONT
    return count


def start_one(prover: Prover, job: str) -> None:
    """Partition 0 proven, partition 1 on the device."""
    tracker = prover.tracker
    assert prover.take()
    tracker.job_loading(job)
    tracker.job_running(job)
    prover.prove_partition(job, 0, prover.workers[0])
    key = tracker.new_attempt(job, 1)
    tracker.reserved(key)
    tracker.partition_synth_start(key)
    tracker.partition_synth_end(key)
    tracker.partition_gpu_start(key, prover.workers[0])
    tracker.device_wait(key)
    tracker.device_start(key)
    assert prover.journal.flush()


@pytest.fixture(autouse=True)
def no_recent_start(template: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has just started: wait until it is older than a lease."""
    await_grown_up(template)


def test_everything_it_held_is_lost_and_the_job_goes_back(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2)
    with running(database, tmp_path) as prover:
        start_one(prover, job)
        assert expire(database, prover) == 1
        state = assert_fold_equals_tables(database)
        with database.connect(SITE) as web:
            assert web.execute("SELECT mark_lost()").fetchone() == (0,)  # idempotent
            row = web.execute("SELECT state, session_id, losses, partitions_done FROM job").fetchone()
            assert row == ("queued", None, 1, 1)
            assert web.execute("SELECT state FROM attempt ORDER BY partition").fetchall() == [("done",), ("lost",)]
            assert web.execute("SELECT DISTINCT state FROM worker").fetchall() == [("lost",)]
        assert all(state.front(worker) is None for worker in prover.workers)
        eventually(lambda: prover.control.lost)
        assert prover.journal.trouble == "session_lost"


def test_late_moves_are_refused_and_a_late_proof_completes_its_partition(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2)
    with running(database, tmp_path / "a", "a") as a, running(database, tmp_path / "b", "b") as b:
        start_one(a, job)
        assert expire(database, a) == 1
        (again,) = b.take()
        assert again.proofs == {0: PROOF} and again.attempts[1].state == "lost" and again.losses == 1
        b.tracker.job_loading(job)
        b.tracker.job_running(job)
        key = b.tracker.new_attempt(job, 1)
        assert key.number == 2
        # the old session did not hear of its loss: its proof is good, its states are not
        old = AttemptKey(job, 1, 1)
        a.tracker.handoff(old)
        a.journal.put_proof(job, 1, 1, PROOF)
        a.tracker.partition_gpu_end(old)
        a.tracker.job_assembling(job)
        a.journal.put_delivery(job, b"from the dead")
        a.journal.flush()
        eventually(lambda: b.control.results == [(job, 0, PROOF), (job, 1, PROOF)])
        b.tracker.partition_skipped(key, "result_arrived")
        b.tracker.job_assembling(job)
        b.tracker.job_verifying(job)
        b.journal.put_delivery(job, PROOF * 2)
        b.tracker.job_completed(job)
        assert b.journal.flush()
        assert assert_fold_equals_tables(database).ended == {"window-post done": 1}
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT proof FROM delivery").fetchall() == [(PROOF * 2,)]
        late = owner.execute(
            "SELECT session_id::text, entity, new FROM anomaly WHERE code = 'stale_session' ORDER BY id"
        )
        assert late.fetchall()[:3] == [
            (a.session, "attempt", "finalizing"), (a.session, "attempt", "done"), (a.session, "job", "assembling"),
        ]  # fmt: skip
        assert owner.execute("SELECT state FROM attempt WHERE partition = 1 ORDER BY attempt_no").fetchall() == [
            ("lost",), ("skipped",),
        ]  # fmt: skip


def test_third_loss_fails_the_job(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2)
    with database.connect(OWNER) as owner:
        owner.execute("UPDATE job SET losses = 2")
    with running(database, tmp_path) as prover:
        start_one(prover, job)
        expire(database, prover)
        assert assert_fold_equals_tables(database).ended == {"window-post failed": 1}
    with database.connect(OWNER) as owner:
        row = owner.execute("SELECT state, error_code, error_message, ended_at IS NOT NULL FROM job").fetchone()
        assert row == ("failed", "retries_exhausted", "its session was lost 3 times while it was worked on", True)


def test_a_lease_without_work_is_no_loss(database: Database, tmp_path: Path) -> None:
    submit_one(database)
    with running(database, tmp_path) as prover:
        prover.take()
        expire(database, prover)
        with database.connect(SITE) as web:
            assert web.execute("SELECT state, session_id, losses FROM job").fetchone() == ("queued", None, 0)
        assert_fold_equals_tables(database)


STEPS = ["loading", "running", "pending", "reserved", "synthesizing", "ready", "claimed", "device_wait", "device"]


def advance(prover: Prover, job: str, until: str) -> None:
    """Move a claimed job and its attempt on as far as a step."""
    tracker = prover.tracker
    assert tracker.job_loading(job)
    if until == "loading":
        return
    assert tracker.job_running(job)
    if until == "running":
        return
    key = tracker.new_attempt(job, 0)
    steps = [
        tracker.reserved, tracker.partition_synth_start, tracker.partition_synth_end,
        lambda key: tracker.partition_gpu_start(key, prover.workers[0]), tracker.device_wait, tracker.device_start,
    ]  # fmt: skip
    assert all(step(key) for step in steps[: STEPS.index(until) - STEPS.index("pending")])


@pytest.mark.parametrize("until", STEPS)
def test_a_loss_counts_only_when_the_job_was_worked_on(database: Database, tmp_path: Path, until: str) -> None:
    """Twice lost before: once more fails the job when its work had begun, and otherwise it is simply queued again."""
    worked_on = STEPS.index(until) > STEPS.index("pending")
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        owner.execute("UPDATE job SET losses = 2")
        with running(database, tmp_path) as prover:
            assert prover.take()
            advance(prover, job, until)
            assert prover.journal.flush()
            assert owner.execute("SELECT supersede_session(%s)", [prover.session]).fetchone() == (True,)
        row = owner.execute("SELECT state, losses, session_id IS NULL FROM job").fetchone()
        assert row == (("failed", 3, False) if worked_on else ("queued", 2, True))
        assert_fold_equals_tables(database)


def test_work_of_an_earlier_session_does_not_count_twice(database: Database, tmp_path: Path) -> None:
    """What the first session began is its own loss; the second only claimed the job."""
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        for until, losses in (("device", 1), ("loading", 1), ("running", 1), ("loading", 1)):
            with running(database, tmp_path) as prover:
                assert prover.take()
                advance(prover, job, until)
                assert prover.journal.flush()
                owner.execute("SELECT supersede_session(%s)", [prover.session])
            assert owner.execute("SELECT state, losses FROM job").fetchone() == ("queued", losses)
        assert_fold_equals_tables(database)


def test_a_job_that_kills_its_provers_while_they_load_it_ends_too(database: Database, tmp_path: Path) -> None:
    """No attempt ever begins, so no loss counts; the tenth ends it all the same."""
    job = submit_one(database)
    with database.connect(OWNER) as owner:
        for n in range(10):
            with running(database, tmp_path) as prover:
                assert prover.take(), n
                advance(prover, job, "loading")
                assert prover.journal.flush()
                owner.execute("SELECT supersede_session(%s)", [prover.session])
        row = owner.execute("SELECT state, losses, error_code, error_message FROM job").fetchone()
        assert row == ("failed", 0, "retries_exhausted", "its session was lost ten times before any work on it began")
        assert_fold_equals_tables(database)


def test_many_observers_mark_once(database: Database, tmp_path: Path) -> None:
    job = submit_one(database, partitions=2)
    with running(database, tmp_path) as prover:
        start_one(prover, job)
        prover.journal._heartbeat._process.send_signal(19)
        with database.connect(OWNER) as owner:
            owner.execute("SELECT mark_lost()")
            owner.execute("UPDATE session SET lease_until = now() - interval '1 second'")
            watched(owner)

        def look() -> int:
            with database.connect(SITE) as web:
                return sum(web.execute("SELECT mark_lost()").fetchone()[0] for _ in range(5))

        assert sum(at_once([look] * 4)) == 1
        prover.journal._heartbeat._process.send_signal(18)
        assert_fold_equals_tables(database)


def test_nobody_expires_before_a_whole_lease_was_watched(database: Database, tmp_path: Path) -> None:
    """The observers, or the database, were away: nobody could renew. The first look only begins the watch."""
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner:
        prover.journal._heartbeat._process.send_signal(19)
        owner.execute("UPDATE session SET lease_until = now() - interval '1 hour' WHERE id = %s", [prover.session])
        owner.execute("UPDATE session SET heartbeat_at = now() - interval '7 seconds' WHERE prover = 'site'")
        assert owner.execute("SELECT mark_lost()").fetchone() == (0,)
        (left,) = owner.execute("SELECT lease_until - now() FROM session WHERE prover = 'site'").fetchone()
        assert 11 < left.total_seconds() <= 12
        assert owner.execute("SELECT mark_lost()").fetchone() == (0,)
        watched(owner)
        assert owner.execute("SELECT mark_lost()").fetchone() == (1,)
        prover.journal._heartbeat._process.send_signal(18)


def test_nobody_expires_soon_after_the_database_came_back(own_server: Database, tmp_path: Path) -> None:
    with running(own_server, tmp_path) as prover:
        prover.journal._heartbeat._process.send_signal(19)
        own_server.server.kill()
        own_server.server.start()
        with own_server.connect(OWNER) as owner:
            owner.execute("UPDATE session SET lease_until = now() - interval '1 hour' WHERE id = %s", [prover.session])
            owner.execute("SELECT mark_lost()")
            watched(owner)
            assert owner.execute("SELECT mark_lost()").fetchone() == (0,)
        prover.journal._heartbeat._process.send_signal(18)


def test_the_clock_is_set_forward(database: Database, tmp_path: Path) -> None:
    """All leases seem to be over at once: they have a whole lease to be renewed."""
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner:
        owner.execute("SELECT mark_lost()")
        hour = "- interval '1 hour'"  # as they look from an hour later
        owner.execute(f"UPDATE session SET lease_until = lease_until {hour}, heartbeat_at = heartbeat_at {hour}")
        assert owner.execute("SELECT mark_lost()").fetchone() == (0,)
        state = "SELECT state, lease_until > now() FROM session WHERE id = %s"
        eventually(lambda: owner.execute(state, [prover.session]).fetchone() == ("online", True))


def test_the_clock_is_set_back(database: Database, tmp_path: Path) -> None:
    """A lease that was given by the old time would hold for an hour after its prover died."""
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner:
        prover.journal._heartbeat._process.send_signal(19)
        owner.execute("SELECT mark_lost()")
        hour = "+ interval '1 hour'"  # as they look from an hour before
        owner.execute(f"UPDATE session SET lease_until = lease_until {hour}, heartbeat_at = heartbeat_at {hour}")
        assert owner.execute("SELECT mark_lost()").fetchone() == (0,)
        left = "SELECT extract(epoch FROM lease_until - now())::float8 FROM session"
        assert all(seconds <= 12 for (seconds,) in owner.execute(left).fetchall())
        owner.execute("UPDATE session SET lease_until = now() - interval '1 second' WHERE id = %s", [prover.session])
        watched(owner)
        assert owner.execute("SELECT mark_lost()").fetchone() == (1,)
        prover.journal._heartbeat._process.send_signal(18)


#: what a session holds, a row of each table
HELD = [
    "SELECT FROM attempt FOR UPDATE", "SELECT FROM job FOR UPDATE", "SELECT FROM worker FOR UPDATE",
    "SELECT FROM device FOR UPDATE", "SELECT FROM command FOR UPDATE", "SELECT FROM counter FOR UPDATE",
]  # fmt: skip


def test_who_marks_a_session_lost_waits_for_no_row_that_others_hold(database: Database, tmp_path: Path) -> None:
    """It would hold the site meanwhile: no job could be submitted, no heartbeat could look."""
    job = submit_one(database, partitions=2)
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner, database.connect(OWNER) as other:
        start_one(prover, job)
        owner.execute("INSERT INTO counter (kind, state, count) VALUES ('window-post', 'done', 0)")
        prover.control.command = lambda command: None  # it does not hear of it any more
        owner.execute("SELECT cancel_job(%s, NULL, 'olga')", [job])
        owner.execute("SET lock_timeout = 1000")
        for held in HELD:
            with other.transaction():
                assert other.execute(held).rowcount > 0
                assert owner.execute("SELECT supersede_session(%s)", [prover.session]).fetchone() == (False,), held
                submit_one(database)  # nobody is kept from the site
        assert owner.execute("SELECT supersede_session(%s)", [prover.session]).fetchone() == (True,)
        assert owner.execute("SELECT state FROM job WHERE id = %s", [job]).fetchone() == ("cancelled",)
        owner.execute("DELETE FROM counter WHERE count = 0")
        assert_fold_equals_tables(database)


def test_a_wish_whose_row_others_hold_is_answered_later(database: Database, tmp_path: Path) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover, database.connect(OWNER) as owner, database.connect(OWNER) as other:
        prover.control.command = lambda command: None
        assert prover.take()
        owner.execute("SELECT cancel_job(%s, NULL, 'olga')", [job])
        prover.journal._heartbeat._process.send_signal(19)  # it would settle the wish
        prover.tracker.job_loading(job)
        prover.tracker.job_released(job, "draining")
        assert prover.journal.flush()
        owner.execute("SET lock_timeout = 1000")
        with other.transaction():
            other.execute("SELECT FROM command FOR UPDATE")
            owner.execute("SELECT mark_lost()")
            assert owner.execute("SELECT state FROM command").fetchone() == ("pending",)
        owner.execute("SELECT mark_lost()")
        assert owner.execute("SELECT state, outcome IS NOT NULL FROM command").fetchone() == ("done", True)
        prover.journal._heartbeat._process.send_signal(18)
    assert assert_fold_equals_tables(database).ended == {"window-post cancelled": 1}
