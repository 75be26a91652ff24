"""What people ask of jobs that are here: they are held, and change their places in the queues."""

from __future__ import annotations

import pytest

from prover.states import JOB_ACTIONS, Action, Attempt, Entity
from tests.pipeline.controlled import Rig, claiming


def started(rig: Rig) -> list[str]:
    """The jobs in the order in which their partitions were synthesised."""
    return [job for step, job, _ in rig.kind.order if step == "synthesize"]


def test_another_priority_moves_a_job_that_waits_here() -> None:
    with Rig(workers_per_device=1) as rig:
        first = rig.gate("synthesize", "a")
        rig.submit("a", 1, priority=2)
        first.await_arrival()
        rig.submit("b", 1, priority=1)  # none is critical: those have a synthesis thread of their own
        rig.await_attempt("b:0:1", "pending")
        rig.submit("c", 2, priority=3)
        rig.await_attempt("c:1:1", "pending")
        assert rig.command("priority", "b", priority=3) == "its place in the queues is changed"
        assert rig.command("priority", "c", priority=1) == "its place in the queues is changed"
        first.open()
        for job in "abc":
            rig.await_job(job, "done")
        assert started(rig) == ["a", "b", "c", "c"]
        assert rig.view(Entity.JOB, "b").detail["priority"] == 3
    assert not rig.anomalies


def test_a_deadline_moves_it_among_its_equals() -> None:
    with Rig(workers_per_device=4) as rig:
        first = rig.gate("synthesize", "a")
        rig.submit("a")
        first.await_arrival()
        for job in "bcd":
            rig.submit(job)
            rig.await_attempt(f"{job}:0:1", "pending")
        rig.command("deadline", "d", deadline_us=10)
        rig.command("deadline", "b", deadline_us=5)
        rig.command("deadline", "b", deadline_us=None)
        first.open()
        for job in "abcd":
            rig.await_job(job, "done")
    assert started(rig) == ["a", "d", "b", "c"]


def test_what_is_ready_is_put_into_order_too() -> None:
    with Rig(workers_per_device=1) as rig:
        device = rig.gate("start", "a")
        for job in "ab":
            rig.submit(job, 1, priority=2)
            rig.await_attempt(f"{job}:0:1", {"a": "device", "b": "ready"}[job])
        rig.submit("c", 1, priority=3)
        rig.await_attempt("c:0:1", "pending")
        rig.command("priority", "b", priority=4)
        device.open()
        for job in "abc":
            rig.await_job(job, "done")
    assert [job for step, job, _ in rig.kind.order if step == "start"] == ["a", "b", "c"]


def test_a_held_job_is_given_back_and_the_proof_of_its_tail_is_kept() -> None:
    with Rig(workers_per_device=1) as rig:
        tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
        rig.submit("a", 3)
        tail.await_arrival()
        device.await_arrival()
        assert (rig.command("hold", "a") or "").startswith("held")
        assert rig.view(Entity.JOB, "a").state == "held"
        assert rig.command("hold", "a", "again") is None, "it is the database's now"
        tail.open()
        rig.submit("b")
        device.open()
        rig.await_job("b", "done")
        assert {view.state for _, view in rig.state().attempts("a")} == {Attempt.LOST}
    assert set(rig.results.proofs) == {("a", 0), ("b", 0)}


@pytest.mark.parametrize("action", [action for action in JOB_ACTIONS if action not in (Action.RELEASE, Action.RETRY)])
def test_every_action_of_a_job_is_executed_also_before_the_job_is_here(action: Action) -> None:
    arguments = {Action.PRIORITY: {"priority": 4}, Action.DEADLINE: {"deadline_us": 7}}.get(action, {})
    with Rig(workers_per_device=1) as rig:
        load = rig.gate("load", "a")
        gate = claiming(rig)
        rig.submit("a")
        gate.await_arrival()
        assert rig.command(action, "a", "early", **arguments) is None
        gate.open()
        rig.await_state(Entity.COMMAND, "early", "done")
        load.open()


def test_what_makes_no_sense_here_is_refused() -> None:
    with Rig(workers_per_device=1) as rig:
        load = rig.gate("load", "a")
        rig.submit("a")
        load.await_arrival()
        assert rig.command("release", "a") == "action: it is loading"
        assert rig.command("retry", "a") == "action: it is loading"
        load.open()
        rig.await_job("a", "done")
        for action in ("hold", "priority", "cancel"):
            assert rig.command(action, "a", priority=1) == "target: it had ended before"
