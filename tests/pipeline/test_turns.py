"""Ageing, deadlines, and what is critical: who comes next when everything is busy."""

from __future__ import annotations

from prover.pipeline.turns import Turns
from prover.states import Entity
from tests.journal.helpers import eventually
from tests.pipeline.controlled import Rig


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_priority_without_a_turn_gets_one_an_interval() -> None:
    clock = Hand()
    turns = Turns(10, clock)
    assert turns.due() is None
    clock.now = 10
    assert turns.due() == 2
    turns.had(3)
    turns.had(4)
    assert turns.due() == 2, "what is urgent is no turn of the others"
    turns.had(2)
    assert turns.due() == 1
    turns.had(1)
    assert turns.due() is None
    clock.now = 19.9
    assert turns.due() is None
    clock.now = 20
    turns.had(1)
    assert turns.due() is None, "a low one is a turn of normal too"
    assert Turns(0, clock).due() is None


def synthesised(rig: Rig) -> list[str]:
    return [job for step, job, _ in rig.kind.order if step == "synthesize"]


def test_a_low_job_is_not_starved_by_high_ones_and_stands_behind_critical_ones() -> None:
    clock = Hand()
    with Rig(workers_per_device=1) as rig:
        rig.engine._turns = Turns(10, clock)
        device = rig.gate("start", "high", 0)
        rig.submit("high", 8, priority=3)
        device.await_arrival()
        rig.submit("low", priority=1)
        clock.now = 10.0
        rig.engine.wake()
        rig.await_attempt("low:0:1", "pending")
        rig.submit("critical", priority=4)
        rig.await_attempt("critical:0:1", "ready")
        device.open()
        for job in ("high", "low", "critical"):
            rig.await_job(job, "done")
    order = synthesised(rig)
    assert order.index("critical") < order.index("low") < len(order) - 4
    assert rig.view(Entity.JOB, "low").detail["priority"] == 1, "it is as low as it was"


def test_one_that_is_here_already_ages_too() -> None:
    clock = Hand()
    with Rig(workers_per_device=1) as rig:
        rig.engine._turns = Turns(10, clock)
        first = rig.gate("synthesize", "first")
        rig.submit("first", priority=1)
        first.await_arrival()
        rig.submit("low", 2, priority=1)
        rig.await_attempt("low:1:1", "pending")
        rig.submit("high", 2, priority=3)
        rig.await_attempt("high:1:1", "pending")
        clock.now = 20.0
        rig.engine.wake()
        eventually(lambda: (best := rig.engine.book.pending.best()) is not None and best.job == "low")
        first.open()
        for job in ("first", "low", "high"):
            rig.await_job(job, "done")
    assert synthesised(rig) == ["first", "low", "low", "high", "high"]


def test_what_is_critical_waits_for_no_synthesis_and_for_no_place() -> None:
    with Rig(workers_per_device=1) as rig:
        device, synthesis = rig.gate("start", "a", 0), rig.gate("synthesize", "a", 2)
        rig.submit("a", 8, priority=3)
        device.await_arrival()
        synthesis.await_arrival()
        rig.submit("critical", priority=4)
        rig.await_attempt("critical:0:1", "ready")
        device.open()
        rig.await_job("critical", "done")
        assert "ready" not in rig.attempt("a:2:1")
        synthesis.open()
        rig.await_job("a", "done")
    assert [job for step, job, _ in rig.kind.order if step == "start"][:2] == ["a", "critical"]
    assert not rig.anomalies


def test_no_more_is_synthesised_ahead_than_is_asked_for() -> None:
    with Rig(workers_per_device=1, max_ready=1) as rig:
        device = rig.gate("start", "a", 0)
        rig.submit("a", 6)
        device.await_arrival()
        rig.await_attempt("a:1:1", "ready")
        assert [rig.attempt(f"a:{n}:1")[-1] for n in range(2, 6)] == ["pending"] * 4
        device.open()
        rig.await_job("a", "done")


def test_a_missed_deadline_is_noted_once_and_cancels_only_where_that_is_asked_for() -> None:
    for cancel in (False, True):
        with Rig(workers_per_device=1, cancel_missed=cancel) as rig:
            device = rig.gate("start", "a")
            rig.submit("a", deadline_us=5)
            rig.await_job("a", "running")
            rig.engine.wake()
            rig.await_that(lambda rig=rig: any(t.reason == "deadline_missed" for t in rig.log))
            rig.engine.wake()
            device.open()
            rig.await_job("a", "cancelled" if cancel else "done")
            assert rig.view(Entity.JOB, "a").detail["missed_us"] == 5
        assert [t.reason for t in rig.log].count("deadline_missed") == 1
