"""What fails: its job fails with code and text, what waits is skipped, others go on; what may succeed is made again."""

from __future__ import annotations

import pytest

from prover.errors import InternalError, InvalidRequest
from prover.pipeline.kinds import DeviceFailed, ProofRefused
from prover.states import Admin, Attempt, Entity
from tests.pipeline.controlled import Died, Part, Rig, mark

W0 = "prover/0/0"
PATHS = pytest.mark.parametrize(
    "options", [{}, {"split": False}, {"pipeline": False}], ids=["split", "synchronous", "monolithic"]
)
STEPS = ["synthesize", "prepare", "start", "finish", "verify"]


@PATHS
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_in_any_phase_fails_the_job_and_frees_the_worker(step: str, options: dict[str, bool]) -> None:
    with Rig(**options) as rig:
        rig.kind.errors[step, "a", 0].append(InvalidRequest("bad leaf", field="vanilla_proofs[3]"))
        rig.submit("a", 3)
        rig.await_job("a", "failed")
        rig.submit("b")
        rig.await_job("b", "done")
    assert rig.attempt("a:0:1")[-1] == "failed"
    view = rig.view(Entity.ATTEMPT, "a:0:1")
    assert view.reason == "invalid_request" and view.detail["error"] == "vanilla_proofs[3]: bad leaf"
    job = rig.view(Entity.JOB, "a")
    assert (job.reason, job.detail["error"]) == ("invalid_request", "vanilla_proofs[3]: bad leaf")
    assert rig.state().ended == {"controlled failed": 1, "controlled done": 1}
    assert not rig.anomalies and rig.state().gauges()["open_attempts"] == 0
    assert not rig.results.deliveries["a"]


def test_a_request_that_cannot_be_read_fails_its_job() -> None:
    with Rig() as rig:
        rig.kind.errors["load", "a", 0].append(InvalidRequest("no request"))
        rig.submit("a")
        rig.await_job("a", "failed")
    assert rig.states(Entity.JOB, "a") == ["queued", "loading", "failed"]
    assert not rig.state().views[Entity.ATTEMPT]


def test_a_stored_proof_that_is_none_fails_its_job() -> None:
    with Rig() as rig:
        rig.submit("a", 2, proofs={1: b"short"})
        rig.await_job("a", "failed")
    assert rig.view(Entity.JOB, "a").reason == InternalError.code
    assert rig.state().gauges()["open_attempts"] == 0


def test_an_unknown_exception_is_an_internal_error_and_is_not_tried_again() -> None:
    with Rig() as rig:
        rig.kind.errors["start", "a", 0].append(ZeroDivisionError("oops"))
        rig.submit("a")
        rig.await_job("a", "failed")
    assert rig.view(Entity.JOB, "a").reason == InternalError.code
    assert rig.view(Entity.JOB, "a").detail["error"] == "ZeroDivisionError: oops"


@PATHS
@pytest.mark.parametrize("step", ["start", "finish", "verify"])
def test_what_may_succeed_is_made_again_at_most_twice(step: str, options: dict[str, bool]) -> None:
    errors = {"start": DeviceFailed("ecc"), "finish": DeviceFailed("ecc"), "verify": ProofRefused()}
    with Rig(**options) as rig:
        rig.kind.errors[step, "a", 1] += [errors[step]] * 2
        rig.kind.errors[step, "b", 0] += [errors[step]] * 3
        rig.submit("a", 2)
        rig.submit("b")
        rig.await_job("a", "done")
        rig.await_job("b", "failed")
    assert [rig.attempt(f"a:1:{n}")[-1] for n in (1, 2, 3)] == ["failed", "failed", "done"]
    assert [rig.attempt(f"b:0:{n}")[-1] for n in (1, 2, 3)] == ["failed"] * 3
    assert rig.results.deliveries["a"] == [mark(Part("a", 0)) + mark(Part("a", 1))]
    assert not rig.anomalies


def test_a_proof_that_does_not_verify_is_never_delivered() -> None:
    with Rig() as rig:
        rig.kind.refuse_delivery = True
        rig.submit("a")
        rig.await_job("a", "failed")
    assert rig.states(Entity.JOB, "a") == ["queued", "loading", "running", "assembling", "verifying", "failed"]
    assert rig.view(Entity.JOB, "a").reason == ProofRefused.code and not rig.results.deliveries["a"]


def test_a_failed_tail_leaves_the_next_attempt_of_its_worker_alone() -> None:
    with Rig(workers_per_device=1) as rig:
        tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
        rig.submit("a", 2)
        device.await_arrival()
        since = rig.state().busy_since_us(W0)
        tail.open(InvalidRequest("bad"))
        rig.await_job("a", "failed")
        state = rig.state()
        assert state.activity(W0) == "proving" and state.busy_since_us(W0) == since
        device.open()
        rig.await_attempt("a:1:1", "cancelled")
        assert rig.activity(0) == "idle"
    assert not rig.anomalies


# -- threads that die ------------------------------------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("step", ["prepare", "start"])
def test_a_worker_that_dies_is_seen_and_comes_back(step: str, options: dict[str, bool]) -> None:
    with Rig(**options) as rig:
        rig.kind.errors[step, "a", 0].append(Died("segfault, say"))
        rig.submit("a")
        rig.await_job("a", "done")
        worker = rig.view(Entity.ATTEMPT, "a:0:1").worker
        rig.await_that(lambda: rig.states(Entity.WORKER, worker).count("online") == 2)
    assert rig.states(Entity.WORKER, worker)[:4] == ["starting", "online", "lost", "online"]
    assert rig.view(Entity.WORKER, worker).detail["epoch"] == 2
    assert rig.attempt("a:0:1")[-1] == "failed" and rig.view(Entity.ATTEMPT, "a:0:1").reason == "worker_died"
    assert rig.attempt("a:0:2")[-1] == "done"
    assert not rig.anomalies


def test_the_tails_of_a_worker_that_died_run_on() -> None:
    with Rig(workers_per_device=1) as rig:
        tail = rig.gate("finish", "a", 0)
        rig.kind.errors["start", "a", 1].append(Died())
        rig.submit("a", 2)
        rig.await_state(Entity.WORKER, W0, "lost")
        rig.await_attempt("a:1:2", "done")
        assert rig.state().finalizing(W0) == ("a:0:1",)
        tail.open()
        rig.await_job("a", "done")
    assert not rig.anomalies


def test_a_synthesis_thread_that_dies_comes_back() -> None:
    with Rig() as rig:
        rig.kind.errors["synthesize", "a", 0].append(Died())
        rig.submit("a", 2)
        rig.await_job("a", "done")
    assert rig.attempt("a:0:1")[-1] == "failed" and rig.attempt("a:0:2")[-1] == "done"


def test_a_tail_that_dies_is_made_again() -> None:
    with Rig() as rig:
        rig.kind.errors["finish", "a", 0].append(Died())
        rig.submit("a")
        rig.await_job("a", "done")
    assert rig.attempt("a:0:1")[-1] == "failed"


def test_a_worker_that_dies_again_and_again_is_quarantined_until_somebody_resumes_it() -> None:
    with Rig(workers_per_device=1, quarantine_after=2) as rig:
        rig.kind.errors["start", "a", 0] += [Died(), Died(), InvalidRequest("bad")]
        rig.submit("a")
        rig.await_job("a", "failed")
        assert rig.state().admin(W0) == Admin.ENABLED, "one job may be at fault itself"
        assert rig.attempt("a:0:3")[-1] == Attempt.FAILED
        rig.kind.errors["start", "b", 0] += [Died()]
        rig.submit("b")
        rig.await_state(Entity.ADMIN, W0, Admin.QUARANTINED)
        assert rig.command("pause", W0) and rig.state().admin(W0) == Admin.QUARANTINED
        assert rig.view(Entity.ADMIN, W0).detail["failures"] == 3
        rig.await_that(lambda: rig.states(Entity.JOB, "b")[-1] == "queued")  # no worker is left here: it goes back
        assert rig.command("resume", W0) == "takes work again"
        rig.submit("c")
        rig.await_job("c", "done")
    assert not rig.anomalies  # the pause was refused before it could be a move
