"""The interleavings that the specification lists, row by row, on the pure model."""

from __future__ import annotations

import pytest

from prover.states import (
    Activity,
    Admin,
    Anomaly,
    Attempt,
    Entity,
    FleetState,
    Job,
    Lifecycle,
    Move,
    Refused,
    Transition,
    fold,
)
from tests.states.world import (
    FIRST,
    JOB,
    SECOND,
    SITE,
    WORKERS,
    attempt_move,
    crash,
    job_move,
    opening,
    play,
    step,
    takeover,
    words,
    worker_move,
)

W, V = WORKERS
A, B = 0, 1  # the partitions; an attempt is "job:partition:number"


class Play:
    """A state, and moves made on it."""

    def __init__(self) -> None:
        self.log = list(play(opening()))
        self.state: FleetState = fold(self.log)

    def make(self, move: Move) -> Transition:
        """A move that must be accepted."""
        self.state, made = step(self.state, move)
        assert isinstance(made, Transition), made
        self.log.append(made)
        return made

    def refuse(self, move: Move) -> Anomaly:
        """A move that must be refused, and change nothing."""
        before = words(self.state)
        self.state, made = step(self.state, move)
        assert isinstance(made, Refused), made
        assert words(self.state) == before
        return made.anomaly

    def attempt(self, partition: int, *states: Attempt, number: int = 1, worker: str | None = None) -> None:
        """Take an attempt through states."""
        for new in states:
            self.make(attempt_move(FIRST, partition, number, new, worker if new == Attempt.CLAIMED else None))

    def ready(self, partition: int, number: int = 1) -> None:
        """A new attempt, synthesised."""
        self.attempt(
            partition, Attempt.PENDING, Attempt.RESERVED, Attempt.SYNTHESIZING, Attempt.READY, number=number
        )  # fmt: skip

    def start(self, partition: int, worker: str = W, number: int = 1) -> None:
        """A new attempt, on the device."""
        self.ready(partition, number)
        self.attempt(partition, Attempt.CLAIMED, Attempt.DEVICE_WAIT, Attempt.DEVICE, number=number, worker=worker)

    def of(self, partition: int, number: int = 1) -> str:
        """The state of an attempt."""
        return self.state.get(Entity.ATTEMPT, f"{JOB}:{partition}:{number}").state


@pytest.fixture
def scene() -> Play:
    return Play()


def test_row_1_and_2_the_order_of_a_tails_end_and_the_next_start_does_not_matter() -> None:
    late, early = Play(), Play()
    for scene in (late, early):
        scene.ready(B)
        scene.start(A)
        scene.attempt(A, Attempt.FINALIZING)
    late.attempt(B, Attempt.CLAIMED, worker=W)
    since = late.state.busy_since_us(W)
    late.attempt(A, Attempt.DONE)
    early.attempt(A, Attempt.DONE)
    early.attempt(B, Attempt.CLAIMED, worker=W)
    assert words(late.state) == words(early.state)
    assert late.state.activity(W) == Activity.PROVING and late.state.front(W) == f"{JOB}:1:1"
    assert late.state.busy_since_us(W) == since and late.state.finalizing(W) == ()


def test_row_3_a_failed_tail_leaves_the_next_attempt_of_its_worker_alone(scene: Play) -> None:
    scene.start(A)
    scene.attempt(A, Attempt.FINALIZING)
    scene.start(B)
    since = scene.state.busy_since_us(W)
    scene.attempt(A, Attempt.FAILED)
    scene.make(job_move(FIRST, Job.FAILED))
    assert scene.state.activity(W) == Activity.PROVING and scene.state.busy_since_us(W) == since
    scene.attempt(B, Attempt.FINALIZING)
    assert scene.refuse(attempt_move(FIRST, B, 1, Attempt.DONE)) == Anomaly.JOB_ENDED
    scene.attempt(B, Attempt.CANCELLED)
    assert scene.state.activity(W) == Activity.IDLE


def test_row_4_a_failure_before_the_hand_off_frees_the_worker_at_once(scene: Play) -> None:
    scene.start(A)
    scene.attempt(A, Attempt.FAILED)
    assert scene.state.activity(W) == Activity.IDLE and scene.of(A) == Attempt.FAILED


def test_row_5_a_skipped_claim_frees_the_worker(scene: Play) -> None:
    scene.ready(A)
    scene.attempt(A, Attempt.CLAIMED, worker=W)
    scene.make(job_move(FIRST, Job.FAILED))
    scene.attempt(A, Attempt.SKIPPED)
    assert scene.state.activity(W) == Activity.IDLE


@pytest.mark.parametrize("end", [Attempt.DONE, Attempt.FAILED, Attempt.CANCELLED, Attempt.SKIPPED])
def test_row_6_a_second_end_is_an_anomaly(scene: Play, end: Attempt) -> None:
    scene.start(A)
    scene.attempt(A, Attempt.FINALIZING, end)
    assert scene.refuse(attempt_move(FIRST, A, 1, end)) == Anomaly.DUPLICATE_END
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.DONE)) == Anomaly.DUPLICATE_END


def test_row_7_an_end_before_the_start_is_an_anomaly(scene: Play) -> None:
    scene.ready(A)
    scene.start(B)
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.DONE)) == Anomaly.END_BEFORE_START
    assert scene.refuse(attempt_move(FIRST, A, 2, Attempt.DONE)) == Anomaly.UNKNOWN_ATTEMPT
    assert scene.state.front(W) == f"{JOB}:1:1"


def test_row_8_a_worker_has_one_front(scene: Play) -> None:
    scene.start(A)
    scene.ready(B)
    assert scene.refuse(attempt_move(FIRST, B, 1, Attempt.CLAIMED, W)) == Anomaly.WORKER_BUSY
    scene.attempt(B, Attempt.CLAIMED, Attempt.DEVICE_WAIT, worker=V)
    assert scene.refuse(attempt_move(FIRST, B, 1, Attempt.DEVICE)) == Anomaly.DEVICE_BUSY


def test_row_9_a_late_end_of_an_old_attempt_does_not_touch_its_successor(scene: Play) -> None:
    scene.start(A)
    scene.attempt(A, Attempt.FINALIZING, Attempt.FAILED)
    scene.start(A, number=2)
    since = scene.state.busy_since_us(W)
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.DONE)) == Anomaly.DUPLICATE_END
    assert scene.state.front(W) == f"{JOB}:0:2" and scene.state.busy_since_us(W) == since


def test_row_9_the_late_proof_of_a_lost_attempt_skips_its_successor(scene: Play) -> None:
    scene.start(A)
    scene.attempt(A, Attempt.FINALIZING, Attempt.LOST)
    scene.start(A, number=2)
    scene.attempt(A, Attempt.SKIPPED, number=2)
    assert scene.of(A) == Attempt.LOST and scene.of(A, 2) == Attempt.SKIPPED
    assert scene.state.activity(W) == Activity.IDLE


def test_row_10_a_new_session_holds_nothing_of_the_old(scene: Play) -> None:
    scene.start(B)
    scene.attempt(B, Attempt.FINALIZING)
    scene.start(A)
    for move in [*crash(scene.state)]:
        scene.make(move)
    assert scene.of(A) == scene.of(B) == Attempt.LOST
    assert scene.state.activity(W) == Activity.LOST and scene.state.front(W) is None
    for move in takeover(scene.state):
        scene.make(move)
    assert scene.state.activity(W) == Activity.IDLE and scene.state.get(Entity.JOB, JOB).state == Job.RUNNING
    scene.make(attempt_move(SECOND, A, 2, Attempt.PENDING))


def test_row_10_a_worker_comes_back_only_when_its_old_attempts_have_ended(scene: Play) -> None:
    scene.start(A)
    scene.make(Move(SITE, Entity.SESSION, FIRST, Lifecycle.LOST))
    scene.make(worker_move(SITE, W, Lifecycle.LOST))
    scene.make(Move(SECOND, Entity.SESSION, SECOND, Lifecycle.ONLINE))
    assert scene.refuse(worker_move(SECOND, W, Lifecycle.ONLINE)) == Anomaly.ATTEMPT_OPEN


def test_row_11_late_messages_of_a_lost_session_are_refused(scene: Play) -> None:
    scene.start(A)
    for move in crash(scene.state):
        scene.make(move)
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.FINALIZING)) == Anomaly.DUPLICATE_END
    assert scene.refuse(job_move(FIRST, Job.LOADING)) == Anomaly.STALE_SESSION
    assert scene.refuse(worker_move(FIRST, V, Lifecycle.ONLINE)) == Anomaly.STALE_SESSION


def test_row_11_nobody_declares_the_attempts_of_a_living_session_lost(scene: Play) -> None:
    scene.start(A)
    assert scene.refuse(attempt_move(SITE, A, 1, Attempt.LOST)) == Anomaly.STALE_SESSION
    assert scene.refuse(worker_move(SITE, W, Lifecycle.LOST)) == Anomaly.STALE_SESSION
    assert scene.refuse(job_move(SITE, Job.QUEUED)) == Anomaly.STALE_SESSION


def test_row_12_two_workers_claim_one_attempt_and_one_wins(scene: Play) -> None:
    scene.ready(A)
    scene.attempt(A, Attempt.CLAIMED, worker=W)
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.CLAIMED, V)) == Anomaly.ILLEGAL_MOVE
    assert scene.state.activity(V) == Activity.IDLE


def test_row_13_a_cancelled_job_lets_what_runs_run_out(scene: Play) -> None:
    scene.start(B)
    scene.attempt(B, Attempt.FINALIZING)
    scene.start(A)
    scene.make(job_move(FIRST, Job.CANCELLED))
    assert scene.state.activity(W) == Activity.PROVING
    assert scene.refuse(attempt_move(FIRST, A, 2, Attempt.PENDING)) == Anomaly.JOB_ENDED
    scene.attempt(B, Attempt.CANCELLED)
    assert scene.state.activity(W) == Activity.PROVING
    scene.attempt(A, Attempt.FINALIZING)
    assert scene.state.activity(W) == Activity.FINALIZING
    scene.attempt(A, Attempt.CANCELLED)
    assert scene.state.activity(W) == Activity.IDLE


def test_row_14_a_draining_worker_is_drained_when_its_tails_have_ended(scene: Play) -> None:
    scene.start(A)
    scene.make(Move(SITE, Entity.ADMIN, W, Admin.DRAINING, worker=W))
    assert scene.state.activity(W) == Activity.PROVING
    scene.ready(B)
    scene.attempt(A, Attempt.FINALIZING)
    assert scene.state.activity(W) == Activity.FINALIZING
    assert scene.refuse(attempt_move(FIRST, B, 1, Attempt.CLAIMED, W)) == Anomaly.WORKER_NOT_AVAILABLE
    scene.attempt(A, Attempt.DONE)
    assert scene.state.activity(W) == Activity.DRAINED
    scene.make(Move(SITE, Entity.ADMIN, W, Admin.ENABLED, worker=W))
    scene.attempt(B, Attempt.CLAIMED, worker=W)


def test_row_15_what_was_told_late_and_twice_gives_the_same(scene: Play) -> None:
    scene.ready(B)
    scene.start(A)
    scene.attempt(A, Attempt.FINALIZING)
    scene.attempt(B, Attempt.CLAIMED, worker=W)
    scene.attempt(A, Attempt.DONE)
    known = len(scene.log) - 3
    late = fold(scene.log[:known])
    fold(scene.log[known - 2 :], late)  # the spool is replayed from a little before where the database stopped
    assert late == scene.state


def test_the_monolithic_loop_is_busy_from_claim_to_end(scene: Play) -> None:
    scene.attempt(A, Attempt.PENDING, Attempt.RESERVED, Attempt.CLAIMED, worker=W)
    since = scene.state.busy_since_us(W)
    for new in (Attempt.SYNTHESIZING, Attempt.READY, Attempt.DEVICE_WAIT, Attempt.DEVICE, Attempt.FINISHING):
        scene.attempt(A, new)
        assert scene.state.activity(W) == Activity.PROVING and scene.state.busy_since_us(W) == since
    scene.attempt(A, Attempt.DONE)
    assert scene.state.activity(W) == Activity.IDLE


def test_what_is_not_synthesised_never_waits_for_a_device(scene: Play) -> None:
    scene.attempt(A, Attempt.PENDING, Attempt.RESERVED, Attempt.CLAIMED, worker=W)
    assert scene.refuse(attempt_move(FIRST, A, 1, Attempt.DEVICE_WAIT)) == Anomaly.ILLEGAL_MOVE
    scene.ready(B)
    assert scene.refuse(attempt_move(FIRST, B, 1, Attempt.DEVICE_WAIT)) == Anomaly.ILLEGAL_MOVE


def test_a_job_is_not_done_before_its_partitions(scene: Play) -> None:
    scene.start(A)
    assert scene.refuse(job_move(FIRST, Job.ASSEMBLING)) == Anomaly.PARTITION_UNPROVEN
    scene.attempt(A, Attempt.FINALIZING, Attempt.DONE)
    assert scene.refuse(attempt_move(FIRST, A, 2, Attempt.PENDING)) == Anomaly.RESULT_EXISTS
    scene.make(job_move(FIRST, Job.ASSEMBLING))  # the other partition's proof is from an earlier session
