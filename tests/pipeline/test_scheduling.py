"""Several devices, the order of the queues, backpressure, and that nothing is lost or counted twice."""

from __future__ import annotations

import itertools

import pytest

from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.crew import Crew
from prover.pipeline.tracker import StatusTracker
from prover.states import Admin, Entity
from tests.pipeline.controlled import Part, Rig, mark

PATHS = pytest.mark.parametrize(
    "options", [{}, {"split": False}, {"pipeline": False}], ids=["split", "synchronous", "monolithic"]
)


def test_workers_are_numbered_over_the_devices_in_order() -> None:
    with Rig(devices=2) as rig:
        workers = rig.state().views[Entity.WORKER]
        shown = {view.detail["display"]: (name, view.detail["ordinal"]) for name, view in workers.items()}
    assert shown == {0: ("prover/0/0", 0), 1: ("prover/0/1", 0), 2: ("prover/1/0", 1), 3: ("prover/1/1", 1)}


@PATHS
def test_many_jobs_over_two_devices_are_each_delivered_once(options: dict[str, bool]) -> None:
    with Rig(devices=2, **options) as rig:
        sizes = {f"job{n}": 1 + n % 4 for n in range(20)}
        for job, partitions in sizes.items():
            rig.submit(job, partitions)
        for job in sizes:
            rig.await_job(job, "done")
    for job, partitions in sizes.items():
        assert rig.results.deliveries[job] == [b"".join(mark(Part(job, n)) for n in range(partitions))]
        assert all(len(rig.results.proofs[job, n]) == 1 for n in range(partitions))
    assert rig.state().ended == {"controlled done": 20}
    gauges = rig.state().gauges()
    assert not any(gauges.values()) and not rig.anomalies
    assert [t.seq for t in rig.log] == list(range(1, len(rig.log) + 1)), "dense"
    assert all(a.at_us < b.at_us for a, b in itertools.pairwise(rig.log))


def test_both_devices_compute_at_once_and_neither_twice() -> None:
    with Rig(devices=2) as rig:
        gates = [rig.gate("start", "a", n) for n in range(4)]
        rig.submit("a", 4)
        rig.await_that(lambda: _last_states(rig) == ["device", "device", "device_wait", "device_wait"])
        assert {view.worker for _, view in rig.state().attempts("a")} == {w.id for w in rig.engine._worker_slots}
        assert sum(gate.arrived.is_set() for gate in gates) <= 2
        for gate in gates:
            gate.open()
        rig.await_job("a", "done")


def _last_states(rig: Rig) -> list[str]:
    return sorted(rig.attempt(f"a:{n}:1")[-1] for n in range(4) if rig.attempt(f"a:{n}:1"))


def test_an_idle_device_gets_work_before_a_busy_one_gets_more() -> None:
    tracker = StatusTracker("session", "prover")
    slots = allocate([DeviceInfo("prover", 0), DeviceInfo("prover", 1)], 2)
    tracker.register_workers([], slots)
    for slot in slots:
        tracker.worker_online(slot.id)
    crew, (w0, w1, w2, w3) = Crew(tracker), slots
    assert crew.may_take(w0)
    assert crew.may_take(w1), "nobody else waits"
    crew.done(w1)
    tracker.set_admin(w2.id, Admin.PAUSED, by="olga")
    assert not crew.may_take(w2)
    assert crew.may_take(w1), "who is paused does not hold others up"
    crew.done(w1)
    tracker.set_admin(w2.id, Admin.ENABLED, by="olga")
    assert not crew.may_take(w1) and crew.may_take(w2)
    assert crew.may_take(w1) and crew.may_take(w3)


def test_the_device_lock_saw_one_holder_at_a_time_and_the_tracker_says_the_same() -> None:
    with Rig(devices=2) as rig:
        for n in range(6):
            rig.submit(f"job{n}", 3)
        for n in range(6):
            rig.await_job(f"job{n}", "done")
    for device in ("prover/0", "prover/1"):
        seen = [o for o in rig.truth if o.where == device]
        assert [o.what for o in seen] == ["device_acquired", "device_released"] * (len(seen) // 2)
        assert all(a.attempt == b.attempt for a, b in zip(seen[::2], seen[1::2], strict=True))
        held = {o.attempt: (o.mono_ns, end.mono_ns) for o, end in zip(seen[::2], seen[1::2], strict=True)}
        for attempt, (start, end) in held.items():
            times = {t.new: t.mono_ns for t in rig.log if t.entity_id == attempt}
            assert start <= times["device"] <= times["finalizing"] <= end


def test_the_most_urgent_is_taken_first_from_every_queue() -> None:
    with Rig(workers_per_device=1) as rig:
        device = rig.gate("start", "first")
        rig.submit("first", priority=2)
        device.await_arrival()
        for job, more in [
            ("low", {"priority": 1}), ("normal", {"priority": 2}), ("high", {"priority": 3, "deadline_us": 50}),
            ("sooner", {"priority": 3, "deadline_us": 10}), ("critical", {"priority": 4}),
        ]:  # fmt: skip
            rig.submit(job, 1, **more)
        rig.await_attempt("critical:0:1", "ready")
        device.open()
        for job in ("low", "normal", "high", "sooner", "critical"):
            rig.await_job(job, "done")
    started = [job for step, job, _ in rig.kind.order if step == "start"]
    assert started.index("critical") < started.index("low")
    assert started[0] == "first" and started[-1] == "low"


def test_only_what_can_start_soon_is_claimed_and_what_is_urgent_overtakes() -> None:
    with Rig(workers_per_device=1) as rig:
        device = rig.gate("start", "a", 0)
        rig.submit("a", 8, priority=2)
        device.await_arrival()
        rig.submit("b", priority=2)
        rig.engine.wake()
        rig.submit("urgent", priority=4)
        rig.await_state(Entity.JOB, "urgent", "running")
        assert not rig.states(Entity.JOB, "b"), "it stays in the database, where any prover can take it"
        device.open()
        rig.await_job("urgent", "done")
        rig.await_job("b", "done")
    done = [t.entity_id for t in rig.log if t.entity is Entity.JOB and t.new == "done"]
    assert done[0] == "urgent"


def test_synthesis_runs_ahead_by_a_bounded_number() -> None:
    with Rig(workers_per_device=1) as rig:
        device = rig.gate("start", "a", 0)
        rig.submit("a", 10)
        device.await_arrival()
        rig.await_attempt("a:1:1", "ready")
        rig.await_attempt("a:2:1", "ready")
        states = [rig.attempt(f"a:{n}:1")[-1] for n in range(10)]
        assert states.count("ready") == 2 and states.count("pending") == 7, states
        device.open()
        rig.await_job("a", "done")


def test_a_worker_takes_nothing_new_while_too_many_of_its_tails_wait() -> None:
    with Rig(workers_per_device=1) as rig:
        tails = [rig.gate("finish", "a", n) for n in range(2)]
        rig.submit("a", 3)
        for n in range(2):
            rig.await_attempt(f"a:{n}:1", "finalizing")
        rig.await_attempt("a:2:1", "ready")
        assert rig.activity(0) == "finalizing"
        for gate in tails:
            gate.open()
        rig.await_job("a", "done")


def test_ended_jobs_leave_the_live_state_after_the_retention() -> None:
    rig = Rig()
    rig.tracker._retention_ns = 0
    with rig:
        for n in range(30):
            rig.submit(f"job{n}", 2)
            rig.await_job(f"job{n}", "done")
        state = rig.state()
        assert len(state.views[Entity.JOB]) <= 2 and len(state.views[Entity.ATTEMPT]) <= 4
        assert len(state.latest) <= 4 and len(rig.tracker._attempts) <= 2
    assert rig.state().ended == {"controlled done": 30}


def test_no_job_at_all_is_refused_for_an_unknown_kind() -> None:
    with Rig() as rig:
        rig.engine.book._kinds = {}  # type: ignore[assignment]
        rig.submit("a")
        rig.await_job("a", "failed")
    assert rig.view(Entity.JOB, "a").reason == "unsupported_proof"
