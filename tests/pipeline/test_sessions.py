"""The engine's life: draining, aborting, losing the session, and what earlier sessions left."""

from __future__ import annotations

import pytest
from structlog.testing import LogCapture

from prover.pipeline.jobs import MAX_ATTEMPTS, RetriesExhausted
from prover.pipeline.pool import Pool
from prover.pipeline.sources import PriorAttempt
from prover.pipeline.supervision import ThreadDied
from prover.states import Entity
from tests.pipeline.controlled import PATIENCE_S, Part, Rig, claiming, mark

W0 = "prover/0/0"


def test_draining_finishes_what_runs_and_gives_back_the_rest() -> None:
    rig = Rig(workers_per_device=1)
    rig.engine.start({})
    device, synthesis = rig.gate("start", "a", 0), rig.gate("synthesize", "a", 1)
    rig.submit("a", 2)
    device.await_arrival()
    synthesis.await_arrival()
    rig.submit("b")
    rig.await_attempt("b:0:1", "pending")
    assert not rig.engine.drain(0)
    assert rig.states(Entity.JOB, "b")[-1] == "queued" and rig.attempt("b:0:1")[-1] == "lost"
    rig.submit("c")
    device.open()
    synthesis.open()
    assert rig.engine.drain(PATIENCE_S)
    rig.engine.stop()
    assert rig.states(Entity.JOB, "a")[-1] == "done" and not rig.states(Entity.JOB, "c")
    assert rig.states(Entity.SESSION, "session") == ["starting", "online", "stopped"]
    assert rig.states(Entity.WORKER, W0)[-1] == rig.states(Entity.DEVICE, "prover/0")[-1] == "stopped"
    assert not rig.anomalies


def test_aborting_gives_everything_back_and_is_heard_no_more() -> None:
    rig = Rig(workers_per_device=1)
    rig.engine.start({})
    tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
    rig.submit("a", 2)
    device.await_arrival()
    tail.await_arrival()
    rig.engine.abort()
    said = len(rig.log)
    assert rig.attempt("a:0:1")[-1] == rig.attempt("a:1:1")[-1] == "lost"
    assert rig.states(Entity.JOB, "a")[-1] == "queued"
    assert rig.log[-1].entity is Entity.SESSION and rig.log[-1].new == "stopped"
    tail.open()
    device.open()
    assert rig.engine._workers[0].supervised.join(PATIENCE_S)
    rig.engine._finalizers.stop()
    assert len(rig.log) == said and not rig.anomalies
    assert not rig.results.deliveries["a"]


def test_a_lost_session_says_nothing_more_but_its_late_proof_is_kept() -> None:
    rig = Rig(workers_per_device=1)
    rig.engine.start({})
    tail = rig.gate("finish", "a")
    rig.submit("a")
    tail.await_arrival()
    rig.await_attempt("a:0:1", "finalizing")
    said = len(rig.log)
    rig.engine.session_lost("the lease ran out")
    assert rig.engine.lost.is_set()
    tail.open()
    assert rig.engine._workers[0].supervised.join(PATIENCE_S)
    rig.engine._finalizers.stop()
    assert len(rig.log) == said
    assert rig.results.proofs["a", 0] == [mark(Part("a", 0))]


# -- teardown: what ends is told once, and no thread dies of it -------------------------------------------------------


def deaths(log: LogCapture) -> list[str]:
    return [entry["thread"] for entry in log.entries if entry["event"] == "thread died"]


def ended(rig: Rig) -> bool:
    """Whether all threads of the engine have come to their end."""
    rig.engine._finalizers.stop()
    rig.engine._loaders.finish()
    supervised = [worker.supervised for worker in rig.engine._workers]
    return rig.engine._claims.join(PATIENCE_S) and all(thread.join(PATIENCE_S) for thread in supervised)


@pytest.mark.parametrize("how", ["session_lost", "abort"])
def test_a_job_that_is_claimed_while_the_session_ends_kills_no_thread(how: str, log: LogCapture) -> None:
    rig = Rig(workers_per_device=1)
    claim = claiming(rig)
    rig.engine.start({})
    rig.submit("a")
    claim.await_arrival()
    if how == "session_lost":
        rig.engine.session_lost("the lease ran out")
        claim.open()
        rig.engine.leave()
    else:
        rig.engine._loaders.abandon()  # as when the claim takes longer than anybody waits
        claim.open()
        rig.engine.abort()
    assert ended(rig)
    assert deaths(log) == []


@pytest.mark.parametrize("step", ["load", "synthesize", "prepare", "start", "finish", "verify", "verify_delivery"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("how", ["session_lost", "abort"])
def test_no_thread_dies_of_the_sessions_end(how: str, fails: bool, step: str, log: LogCapture) -> None:
    """Whatever runs when the session ends, and whether it succeeds or fails afterwards."""
    rig = Rig(workers_per_device=1)
    rig.engine.start({})
    gate = rig.gate(step, "a")
    rig.submit("a", 2)
    gate.await_arrival()
    rig.engine.session_lost("the lease ran out") if how == "session_lost" else rig.engine.abort()
    said = len(rig.log)
    gate.open(ThreadDied("try again") if fails else None)
    assert ended(rig)
    assert deaths(log) == [] and len(rig.log) == said
    # the other partition may end between its being given back and the session's last word: refused, and counted
    allowed = {"dup_end"} if how == "abort" else set()
    assert {refused.anomaly.value for refused in rig.anomalies} <= allowed


def test_a_pool_drops_what_comes_after_its_end() -> None:
    for end in (Pool.finish, Pool.abandon):
        pool, made = Pool(1, "test"), []
        assert pool.submit(lambda: made.append(1))  # noqa: B023
        pool.finish()
        end(pool)
        assert not pool.submit(lambda: made.append(2))  # noqa: B023
        assert made == [1]


def test_proofs_of_earlier_sessions_are_reused() -> None:
    done, late = mark(Part("a", 0)), mark(Part("a", 2))
    prior = {0: PriorAttempt(1, "done"), 1: PriorAttempt(1, "lost"), 2: PriorAttempt(2, "lost")}
    with Rig() as rig:
        rig.submit("a", 3, proofs={0: done, 2: late}, attempts=prior, losses=1, queued_at_us=5)
        rig.await_job("a", "done")
    assert not rig.attempt("a:0:2"), "what was done is not touched"
    assert rig.attempt("a:1:2")[-1] == "done"
    assert rig.attempt("a:2:3") == ["pending", "skipped"]
    assert rig.view(Entity.ATTEMPT, "a:2:3").reason == "result_arrived"
    assert rig.results.deliveries["a"] == [done + mark(Part("a", 1)) + late]
    assert rig.states(Entity.JOB, "a")[0] == "loading", "it had been queued by somebody else"
    assert [key for key in rig.kind.order if key[0] == "synthesize"] == [("synthesize", "a", 1)]


def test_a_proof_that_comes_while_its_job_is_loaded_is_used() -> None:
    late = mark(Part("a", 1))
    with Rig() as rig:
        loading = rig.gate("load", "a")
        rig.submit("a", 2)
        loading.await_arrival()
        rig.engine.result_arrived("a", 1, late)
        loading.open()
        rig.await_job("a", "done")
    assert rig.attempt("a:1:1") == ["pending", "skipped"]
    assert rig.results.deliveries["a"] == [mark(Part("a", 0)) + late]
    assert [key for key in rig.kind.order if key[0] == "synthesize"] == [("synthesize", "a", 0)]
    assert not rig.anomalies


def test_a_job_all_of_whose_proofs_are_there_is_only_delivered() -> None:
    proofs = {n: mark(Part("a", n)) for n in range(2)}
    with Rig() as rig:
        rig.submit("a", 2, proofs=proofs, attempts={n: PriorAttempt(1, "done") for n in proofs})
        rig.await_job("a", "done")
    assert not rig.state().views[Entity.ATTEMPT] and rig.results.deliveries["a"] == [proofs[0] + proofs[1]]


def test_a_job_that_outlived_too_many_sessions_fails() -> None:
    with Rig() as rig:
        rig.submit("a", losses=3)
        rig.await_job("a", "failed")
    assert rig.view(Entity.JOB, "a").reason == RetriesExhausted.code


def test_a_job_that_was_tried_too_often_fails_whatever_became_of_its_attempts() -> None:
    with Rig() as rig:
        rig.submit("a", 2, attempts={1: PriorAttempt(MAX_ATTEMPTS, "lost")})
        rig.await_job("a", "failed")
    assert rig.view(Entity.JOB, "a").reason == RetriesExhausted.code


def test_a_result_that_arrives_from_elsewhere_skips_the_attempt_that_is_open() -> None:
    with Rig(workers_per_device=1) as rig:
        tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
        rig.submit("a", 3)
        device.await_arrival()
        tail.await_arrival()
        rig.await_attempt("a:2:1", "ready")
        for partition in range(3):
            rig.engine.result_arrived("a", partition, mark(Part("a", partition)))
        assert rig.attempt("a:2:1")[-1] == "skipped"
        assert rig.states(Entity.JOB, "a")[-1] == "running", "not delivered before its attempts have ended"
        device.open()
        tail.open()
        rig.await_job("a", "done")
    assert rig.attempt("a:0:1")[-1] == rig.attempt("a:1:1")[-1] == "skipped"
    assert len(rig.results.deliveries["a"]) == 1 and not rig.anomalies


def test_a_failure_after_the_result_arrived_does_no_harm() -> None:
    with Rig() as rig:
        device = rig.gate("start", "a")
        rig.submit("a")
        device.await_arrival()
        rig.engine.result_arrived("a", 0, mark(Part("a", 0)))
        device.open(RuntimeError("broken"))
        rig.await_job("a", "done")
    assert rig.attempt("a:0:1")[-1] == "skipped"


def test_a_foreign_result_that_does_not_verify_is_left_alone() -> None:
    with Rig() as rig:
        device = rig.gate("start", "a")
        rig.submit("a")
        device.await_arrival()
        rig.engine.result_arrived("a", 0, bytes(192))
        rig.engine.result_arrived("unknown", 0, bytes(192))
        device.open()
        rig.await_job("a", "done")
    assert rig.attempt("a:0:1")[-1] == "done"
