"""The phantom idle: a worker that proves is shown idle. The old rule shows it, ours cannot."""

from __future__ import annotations

from prover.states import (
    Activity,
    Attempt,
    Entity,
    FleetState,
    Job,
    Lifecycle,
    Move,
    Transition,
    fold,
    worker_id,
)
from tests.states.world import FIRST, JOB, SITE, attempt_move, job_move, play, step, worker_move

WORKERS = (worker_id("p", 0, 0), worker_id("p", 1, 0))

#: (tenths of a second before the screenshot, worker, partition, what happens) as the specification tells it
EVENTS = [
    (-144, 0, 9, "start"),
    (-98, 1, 10, "start"),
    (-52, 0, 9, "handoff"),
    (-52, 0, 11, "start"),
    (-48, 0, 9, "end"),
    (-6, 1, 10, "handoff"),
    (-6, 1, 12, "start"),
    (-2, 1, 10, "end"),
]


class OldRule:
    """The tracker as it was: one slot a worker, filled at the start, cleared by whoever ends for that worker."""

    def __init__(self) -> None:
        self.slots: dict[int, int | None] = {0: None, 1: None}

    def event(self, worker: int, partition: int, what: str) -> None:
        if what == "start":
            self.slots[worker] = partition
        elif what == "end":
            self.slots[worker] = None

    def shown(self, worker: int) -> str:
        return "idle" if self.slots[worker] is None else "proving"


def our_moves(worker: str, partition: int, what: str) -> list[Move]:
    """What the event says to our tracker."""
    states = {
        "start": (Attempt.CLAIMED, Attempt.DEVICE_WAIT, Attempt.DEVICE),
        "handoff": (Attempt.FINALIZING,),
        "end": (Attempt.DONE,),
    }[what]
    return [attempt_move(FIRST, partition, 1, new, worker if new == Attempt.CLAIMED else None) for new in states]


def prepared() -> FleetState:
    """A job of 13 partitions on two workers; those that matter here are synthesised."""
    queued = Move(SITE, Entity.JOB, JOB, Job.QUEUED, job=JOB, detail={"kind": "snap-update", "partitions": 13})
    workers = [worker_move(FIRST, worker, Lifecycle.ONLINE) for worker in WORKERS]
    job = [job_move(FIRST, new) for new in (Job.LOADING, Job.RUNNING)]
    states = (Attempt.PENDING, Attempt.RESERVED, Attempt.SYNTHESIZING, Attempt.READY)
    ready = [attempt_move(FIRST, partition, 1, new) for partition in (9, 10, 11, 12) for new in states]
    return fold(play([queued, *workers, *job, *ready]))


def shown() -> list[tuple[int, int, str, str]]:
    """After each event: (tenths, worker, what the old rule shows of it, what ours shows)."""
    state, old, out = prepared(), OldRule(), []
    for tenths, worker, partition, what in EVENTS:
        old.event(worker, partition, what)
        for move in our_moves(WORKERS[worker], partition, what):
            state, made = step(state, move)
            assert isinstance(made, Transition), made
        out.append((tenths, worker, old.shown(worker), state.activity(WORKERS[worker])))
    return out


def test_the_old_rule_shows_both_workers_idle_and_ours_neither() -> None:
    last = {worker: (old, ours) for _, worker, old, ours in shown()}
    assert last == {0: ("idle", Activity.PROVING), 1: ("idle", Activity.PROVING)}


def test_ours_is_idle_at_no_event_and_the_old_rule_at_every_end() -> None:
    assert all(ours in (Activity.PROVING, Activity.FINALIZING) for *_, ours in shown())
    assert [old for _, _, old, _ in shown()].count("idle") == 2


def test_in_every_order_of_a_tail_and_the_next_start_the_card_tells_the_truth() -> None:
    """P9's tail may end at any moment after its hand-off: the old rule is wrong in some orders, ours in none."""
    wrong = {"old": 0, "ours": 0}
    for place in range(2, 5):
        events = [("start", 9), ("handoff", 9), ("start", 11), ("handoff", 11)]
        events.insert(place, ("end", 9))
        state, old, front = prepared(), OldRule(), None
        for what, partition in events:
            old.event(0, partition, what)
            for move in our_moves(WORKERS[0], partition, what):
                state, _ = step(state, move)
            front = {"start": partition, "handoff": None}.get(what, front)
            wrong["old"] += (front is not None) != (old.shown(0) == "proving")
            wrong["ours"] += (front is not None) != (state.activity(WORKERS[0]) == Activity.PROVING)
    assert wrong["ours"] == 0 and wrong["old"] > 0
