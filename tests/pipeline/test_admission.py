"""Attempts and the memory budget, in the engine: who waits, what is said of it, and that everything is given back."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from prover.pipeline.budget import MemoryBudget
from prover.pipeline.demand import DEVICE_PHASE, TAIL
from prover.pipeline.kinds import KeyAwaited
from prover.states import Entity
from tests.pipeline.controlled import PATIENCE_S, Died, Rig

TOTAL = 100


def rig(needs: int = 60, **options: object) -> Rig:
    made = Rig(budget=MemoryBudget(TOTAL), **options)  # type: ignore[arg-type]
    made.kind.needs = {DEVICE_PHASE: needs - 10, TAIL: 10}
    return made


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what no transition tells of."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.005)


def figures(rig: Rig) -> tuple[int, int]:
    now = rig.engine._admission._budget.figures()
    return now.used, now.waiting


@pytest.mark.parametrize("pipeline", [True, False], ids=["pipeline", "monolithic"])
def test_who_waits_says_for_how_much_and_behind_whom(pipeline: bool) -> None:
    with rig(synthesis_threads=2, pipeline=pipeline, devices=2) as it:
        gate = it.gate("synthesize", "a")
        it.submit("a")
        gate.await_arrival()
        it.submit("b")
        it.await_that(lambda: it.view(Entity.JOB, "b").detail.get("waits") is not None)
        assert it.view(Entity.JOB, "b").detail["waits"] == "memory budget short by 20 bytes; behind job 1"
        assert it.attempt("b:0:1") == ["pending"]
        gate.open()
        it.await_job("b", "done")
        assert it.view(Entity.JOB, "b").detail["waits"] is None
        assert it.view(Entity.ATTEMPT, "b:0:1").detail["bytes"] == 60 if pipeline else True
        assert figures(it) == (0, 0)
    assert not it.anomalies


def test_a_more_urgent_job_takes_memory_before_one_that_waits() -> None:
    with rig(synthesis_threads=2) as it:
        gate = it.gate("synthesize", "a")
        it.submit("a")
        gate.await_arrival()
        it.submit("b")
        it.await_that(lambda: it.view(Entity.JOB, "b").detail.get("waits") is not None)
        it.submit("urgent", priority=4)
        it.await_that(lambda: it.view(Entity.JOB, "urgent").detail.get("waits") is not None)
        gate.open()
        it.await_job("b", "done")
    order = [job for step, job, _ in it.kind.order if step == "synthesize"]
    assert order == ["a", "urgent", "b"]


def test_the_memory_of_the_device_phase_is_free_while_the_tail_runs() -> None:
    with rig(synthesis_threads=2) as it:
        tail = it.gate("finish", "a")
        it.submit("a")
        tail.await_arrival()
        assert figures(it) == (10, 0)
        it.submit("b")
        it.await_job("b", "done")
        tail.open()
    assert figures(it) == (0, 0)


def test_a_job_that_waits_for_memory_is_cancelled_and_holds_nobody_up() -> None:
    with rig(synthesis_threads=2) as it:
        gate = it.gate("synthesize", "a")
        it.submit("a")
        gate.await_arrival()
        it.submit("b")
        it.await_that(lambda: it.view(Entity.JOB, "b").detail.get("waits") is not None)
        it.command("cancel", "b")
        eventually(lambda: figures(it) == (60, 0))
        gate.open()
        it.await_job("a", "done")
    assert it.states(Entity.JOB, "b")[-1] == "cancelled" and figures(it) == (0, 0)


def test_an_attempt_larger_than_the_budget_fails_its_job_with_the_figures() -> None:
    with rig(needs=TOTAL + 1) as it:
        it.submit("a")
        it.await_job("a", "failed")
        detail = it.view(Entity.JOB, "a").detail
        assert detail["error_code"] == "memory_budget_exceeded"
        assert "job 1 needs 101 bytes of memory; the whole budget is 100 bytes" in detail["error"]
        it.kind.needs = {}
        it.submit("b")
        it.await_job("b", "done")


@pytest.mark.parametrize("step", ["synthesize", "prepare", "start", "finish", "verify"])
@pytest.mark.parametrize("pipeline", [True, False], ids=["pipeline", "monolithic"])
def test_whatever_fails_gives_its_memory_back(step: str, pipeline: bool) -> None:
    with rig(pipeline=pipeline) as it:
        it.kind.errors[step, "a", 0] = [ValueError("no")]
        it.kind.errors[step, "b", 0] = [Died()]
        it.submit("a")
        it.await_job("a", "failed")
        it.submit("b")
        it.await_that(lambda: {"done", "failed"} & set(it.states(Entity.JOB, "b")) != set())
        eventually(lambda: figures(it) == (0, 0))
        it.submit("c")
        it.await_job("c", "done")
    assert figures(it) == (0, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_an_attempt_whose_key_was_evicted_waits_apart_and_others_go_on(fails: bool) -> None:
    loads: list[Loading] = []

    class Loading:
        running = True

        def result(self) -> None:
            if fails:
                raise ValueError("the key is gone")

        def shortage(self) -> None: ...

        def leave(self) -> None: ...

    def begin(_order: object, _report: object) -> Loading:
        loads.append(Loading())
        return loads[-1]

    with rig(synthesis_threads=1) as it:
        it.kind.errors["lease", "a", 0] = [KeyAwaited("k", "some circuit", lambda: True, lambda: (), begin)]  # type: ignore[list-item]
        it.submit("a")
        it.await_that(lambda: bool(loads))
        it.submit("b")
        it.await_job("b", "done")
        it.await_state(Entity.HOLDING, "prover:key:k@awaited", "loading")
        assert it.attempt("a:0:1") == ["pending"] and it.activity(0) == it.activity(1) == "idle"
        loads[0].running = False
        it.engine.wake()
        it.await_job("a", "failed" if fails else "done")
        it.await_state(Entity.HOLDING, "prover:key:k@awaited", "evicted")
    assert len(loads) == 1 and not it.anomalies
