"""Faults at the border of a device: it is missing, has no room, gives a wrong result. All above it is the real engine.

The faults are what JAX raises; `device_faults` tells them apart as in production.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import jax
import pytest

from prover.algebra import chunks
from prover.algebra.chunks import LEAST, Limit
from prover.errors import InvalidRequest
from prover.pipeline.allocator import DeviceInfo
from prover.pipeline.device_faults import DeviceLost, DeviceOutOfMemory, cause_of, device_phase
from prover.pipeline.devices import Device, discover
from prover.pipeline.kinds import DeviceFailed, ProofRefused
from prover.pipeline.retry import MAX_DEVICE_LOSSES
from prover.states import Admin, Attempt, Entity, Lifecycle
from tests.pipeline.controlled import PATIENCE_S, ControlledKind, Part, Rig, mark

W0, W1, OTHER = "prover/0/0", "prover/0/1", "prover/1/0"
JaxError = jax.errors.JaxRuntimeError
GONE = "INTERNAL: failed to launch: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
NO_ROOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."


class Backend:
    """What the devices of a test do: as JAX would, it raises where one is missing."""

    def __init__(self) -> None:
        self.missing: set[int] = set()
        self.corrupt: set[int] = set()
        self.found_missing = threading.Event()

    def touch(self, ordinal: int) -> None:
        """Use a device."""
        if ordinal in self.missing:
            self.found_missing.set()
            raise JaxError(GONE)


class OnBackend(ControlledKind):
    """The device phase goes through the backend and the real translation of its errors."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.computed: defaultdict[int, int] = defaultdict(int)  # partitions by device

    def start(self, work: Part, synthesized: Part, device: Device) -> Part:
        with device_phase(device):
            self.backend.touch(device.ordinal)
            if self.backend.missing:  # the others are not so quick that nobody finds it missing
                assert self.backend.found_missing.wait(PATIENCE_S)
            self.computed[device.ordinal] += 1
            super().start(work, synthesized, device)
        return Part("wrong", work.partition) if device.ordinal in self.backend.corrupt else work

    def finish(self, pending: Part) -> bytes:
        return mark(pending)


@pytest.fixture(autouse=True)
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices of these tests are numbers; none is bounded."""
    monkeypatch.setattr(chunks, "limit_of", lambda place: None)


def on(backend: Backend, devices: int = 2, **options: object) -> Rig:
    """An engine over the backend's devices, with probes."""

    def probe(ordinal: int) -> Callable[[], None]:
        return lambda: backend.touch(ordinal)

    made = [Device(DeviceInfo("prover", n), n, probe=probe(n)) for n in range(devices)]
    rig = Rig(devices=made, probe_every_s=0.05, **options)
    rig.kind = OnBackend(backend)
    rig.engine.book._kinds = {"controlled": rig.kind}
    return rig


def broken() -> None:
    """A probe of a device that does not compute."""
    raise JaxError(GONE)


def given_back(rig: Rig, job: str) -> bool:
    """Whether the session had the job, and has put it back into the queue."""
    return rig.states(Entity.JOB, job)[1:][-1:] == ["queued"]


def numbers(rig: Rig, job: str) -> list[int]:
    """The numbers of a job's attempts that were done."""
    done = [view for key, view in rig.state().attempts(job) if view.state == Attempt.DONE]
    return sorted(view.attempt_no or 0 for view in done)


# -- operator's case 1: the device is missing ----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"pipeline": False}], ids=["pipeline", "monolithic"])
def test_work_of_a_missing_device_moves_to_another_and_costs_no_retry(options: dict[str, bool]) -> None:
    backend = Backend()
    backend.missing.add(0)
    with on(backend, **options) as rig:
        rig.submit("a", 8)
        rig.await_job("a", "done")
        worker = rig.view(Entity.WORKER, W0)
        assert (worker.state, worker.reason) == (Lifecycle.LOST, "device_lost")
        assert "CUDA_ERROR_NO_DEVICE" in worker.detail["error"]
        assert rig.activity(0) == "lost" and rig.view(Entity.DEVICE, "prover/0").state == Lifecycle.LOST
        assert rig.kind.computed == {1: 8}
        failed = [view for _, view in rig.state().attempts("a") if view.state == Attempt.FAILED]
        assert 1 <= len(failed) <= 2, "what had begun on it, and nothing after"
        assert {view.reason for view in failed} == {"device_lost"}
    assert not rig.anomalies


def test_without_a_device_the_queue_is_held_until_it_is_back() -> None:
    backend = Backend()
    backend.missing.add(0)
    with on(backend, devices=1) as rig:
        rig.submit("a", 3)
        rig.await_that(lambda: given_back(rig, "a"))  # another prover may take it
        rig.submit("b")
        rig.engine.wake()
        time.sleep(0.3)  # several looks and probes
        assert not rig.states(Entity.JOB, "b"), "nothing is claimed"
        backend.missing.clear()
        rig.await_that(lambda: rig.states(Entity.WORKER, W1)[-1] == "online" and rig.activity(0) == "idle")
        rig.engine.wake()
        rig.await_job("b", "done")
    assert rig.states(Entity.DEVICE, "prover/0") == ["online", "lost", "online", "stopped"]
    assert numbers(rig, "b") == [1]
    assert not rig.anomalies


def test_a_device_that_is_gone_in_one_session_is_gone_in_the_next() -> None:
    backend = Backend()
    backend.missing.add(0)
    with on(backend, devices=1) as first:
        first.submit("a")
        first.await_that(lambda: given_back(first, "a"))
    with Rig(devices=first.devices, session="next", probe_every_s=0.05) as rig:
        assert rig.states(Entity.DEVICE, "prover/0") == ["online", "lost"]
        assert rig.activity(0) == rig.activity(1) == "lost"
        backend.missing.clear()
        rig.await_that(lambda: rig.states(Entity.WORKER, W0)[-1] == "online")


def test_a_partition_under_which_devices_vanish_is_given_up() -> None:
    """A partition that takes its device along each time: others must not wait for it for ever."""
    backend = Backend()
    with on(backend, devices=MAX_DEVICE_LOSSES + 2, workers_per_device=1) as rig:
        rig.kind.errors["start", "a", 0] += [JaxError(GONE)] * (MAX_DEVICE_LOSSES + 1)
        rig.submit("a")
        rig.await_job("a", "failed")
        rig.submit("b")
        rig.await_job("b", "done")
    assert rig.view(Entity.JOB, "a").reason == "device_lost"
    assert len(list(rig.state().attempts("a"))) == MAX_DEVICE_LOSSES + 1


def test_a_failure_has_its_device_probed() -> None:
    """What JAX says is not always clear: the device is asked."""
    backend = Backend()
    with on(backend) as rig:
        rig.kind.errors["start", "a", 0].append(JaxError("INTERNAL: something odd"))
        for device in rig.devices:
            device.probe = broken
        rig.submit("a")
        rig.await_job("a", "done")
        failed = rig.view(Entity.ATTEMPT, "a:0:1")
        assert failed.reason == "device_failed"
        rig.await_state(Entity.DEVICE, failed.worker.rpartition("/")[0], "lost")


# -- operator's case 10: results that are wrong ----------------------------------------------------------------------


def test_a_corrupted_result_is_made_again_on_another_device_and_never_delivered() -> None:
    backend = Backend()
    backend.corrupt.add(0)
    with on(backend) as rig:
        for name in ("a", "b"):
            rig.submit(name, 4)
            rig.await_job(name, "done")
        assert rig.results.deliveries["a"] == [b"".join(mark(Part("a", n)) for n in range(4))]
        refused = [v for job in ("a", "b") for _, v in rig.state().attempts(job) if v.reason == ProofRefused.code]
        assert refused and {view.worker.rpartition("/")[0] for view in refused if view.worker} == {"prover/0"}
        for view in refused:
            again = rig.view(Entity.ATTEMPT, f"{view.job}:{view.partition}:{view.attempt_no + 1}")
            assert again.state == Attempt.DONE and again.worker.startswith("prover/1/"), "elsewhere first"
            assert again.detail["after"] == "proof_refused"
        counts = rig.engine.book.quarantine.counts()
        assert counts["self_check_failures"] == {"prover/0": len(refused)}


@pytest.mark.parametrize("options", [{}, {"split": False}, {"pipeline": False}])
def test_a_worker_whose_proofs_are_refused_is_quarantined_and_released_by_a_person(options: dict[str, bool]) -> None:
    backend = Backend()
    backend.corrupt.add(0)
    with on(backend, devices=1, workers_per_device=1, **options) as rig:
        rig.submit("a")
        rig.await_job("a", "failed")
        assert rig.view(Entity.JOB, "a").reason == ProofRefused.code and not rig.results.deliveries["a"]
        assert rig.state().admin(W0) == Admin.ENABLED, "one job may be at fault itself"
        rig.submit("b")
        rig.await_state(Entity.ADMIN, W0, Admin.QUARANTINED)
        admin = rig.view(Entity.ADMIN, W0)
        assert (admin.reason, admin.detail["by"], admin.detail["failures"]) == (ProofRefused.code, "system", 4)
        rig.await_that(lambda: given_back(rig, "b"))
        assert rig.activity(0) == "quarantined"
        assert rig.engine.book.quarantine.counts()["quarantines"] == 1
        backend.corrupt.clear()
        assert rig.command("resume", W0) == "takes work again"
        rig.submit("c")
        rig.await_job("c", "done")
    assert not rig.results.deliveries["b"]
    assert not rig.anomalies


def test_failures_of_the_input_count_against_nobody() -> None:
    with on(Backend(), devices=1, workers_per_device=1) as rig:
        for name in "abcde":
            rig.kind.errors["synthesize", name, 0].append(InvalidRequest("bad leaf"))
            rig.submit(name)
            rig.await_job(name, "failed")
        assert rig.state().admin(W0) == Admin.ENABLED


# -- no room ---------------------------------------------------------------------------------------------------------


def test_without_room_chunks_are_halved_and_the_next_attempt_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit(8 * LEAST)
    monkeypatch.setattr(chunks, "limit_of", lambda place: limit)
    with on(Backend(), devices=1, workers_per_device=1, backoff_s=0.05) as rig:
        rig.kind.errors["start", "a", 0] += [JaxError(NO_ROOM)] * 2
        rig.submit("a")
        rig.await_job("a", "done")
    assert limit.nbytes == 2 * LEAST
    second, third = (rig.view(Entity.ATTEMPT, f"a:0:{n}") for n in (2, 3))
    assert second.detail["after"] == third.detail["after"] == "device_out_of_memory"
    waits = [view.detail["retry_at_us"] - view.times["pending"] for view in (second, third)]
    assert waits[0] == pytest.approx(100_000, abs=20_000) and waits[1] == pytest.approx(200_000, abs=20_000)
    assert all(view.times["reserved"] >= view.detail["retry_at_us"] - 1000 for view in (second, third))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (GONE, DeviceLost), (NO_ROOM, DeviceOutOfMemory), ("INTERNAL: CUDA_ERROR_OUT_OF_MEMORY", DeviceOutOfMemory),
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", DeviceLost),
        ("INVALID_ARGUMENT: shapes differ", DeviceFailed),
    ],
)  # fmt: skip
def test_what_jax_says_is_told_apart(text: str, cause: type[DeviceFailed]) -> None:
    assert type(cause_of(JaxError(text), Device(DeviceInfo("prover", 0), 0))) is cause


def test_a_retry_that_waits_ends_with_its_job() -> None:
    with on(Backend(), devices=1, backoff_s=60.0) as rig:
        rig.kind.errors["start", "a", 0].append(JaxError("INTERNAL: odd"))
        rig.submit("a")
        rig.await_attempt("a:0:2", "pending")
        assert rig.engine.book.cancel("a", by="olga")
        rig.await_attempt("a:0:2", "cancelled")
    assert not rig.anomalies


def test_a_hanging_probe_keeps_nobody_from_work() -> None:
    backend, held = Backend(), threading.Event()
    backend.missing.add(0)
    with on(backend) as rig:
        rig.devices[0].probe = held.wait
        rig.submit("a", 4)
        rig.await_job("a", "done")
        rig.submit("b", 4)
        rig.await_job("b", "done")
        held.set()


def test_a_jax_device_is_probed_by_a_computation() -> None:
    devices: Sequence[Device] = discover("prover", jax.devices("cpu")[:1])
    assert devices[0].probe is not None and devices[0].lost is None
    devices[0].probe()
