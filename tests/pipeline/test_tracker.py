"""The tracker's calls under their known names, what sinks get, and what the log says to operators."""

from __future__ import annotations

from structlog.testing import LogCapture

from prover.errors import InternalError
from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.attempts import AttemptKey
from prover.pipeline.sources import JobInfo
from prover.pipeline.tracker import StatusTracker
from prover.states import Anomaly, Attempt, Entity, Refused, Transition, fold
from tests.pipeline.controlled import Rig

DEVICE = DeviceInfo("p", 0, "test device", "cpu", 1 << 30)
SLOTS = allocate([DEVICE], 2)
W0 = SLOTS[0].id


def tracker(said: list[Transition | Refused]) -> StatusTracker:
    made = StatusTracker("s", "p", sinks=[said.append])
    made.session_starting({"prover": "p"})
    made.register_workers([DEVICE], SLOTS)
    for slot in SLOTS:
        made.worker_online(slot.id)
    return made


def test_the_known_names_tell_the_life_of_a_partition() -> None:
    said: list[Transition | Refused] = []
    one = tracker(said)
    assert one.register_job(JobInfo("j", "window-post")) and one.job_loading("j") and one.job_running("j")
    key = one.new_attempt("j")
    assert key == AttemptKey("j", 0, 1)
    assert one.reserved(key, {"bytes": 5})
    assert one.partition_synth_start(key) and one.partition_synth_end(key)
    assert one.partition_gpu_start(key, W0) and one.device_wait(key) and one.device_start(key) and one.handoff(key)
    assert one.partition_gpu_end(key) and one.job_assembling("j") and one.job_verifying("j") and one.job_completed("j")
    one.set_queue_depth(7)
    assert one.gauges()["queue_depth"] == 7
    assert fold(t for t in said if isinstance(t, Transition)) == one.snapshot()
    assert [t.seq for t in said if isinstance(t, Transition)] == list(range(1, len(said) + 1))


def test_a_snapshot_is_independent() -> None:
    said: list[Transition | Refused] = []
    one = tracker(said)
    before = one.snapshot()
    one.register_job(JobInfo("j", "window-post"))
    assert "j" not in before.views[Entity.JOB] and "j" in one.snapshot().views[Entity.JOB]


def test_what_is_refused_changes_nothing_and_reaches_the_sinks_as_an_anomaly() -> None:
    said: list[Transition | Refused] = []
    one = tracker(said)
    one.register_job(JobInfo("j", "window-post"))
    before, count = one.snapshot(), len(said)
    assert not one.partition_gpu_end(AttemptKey("j"))
    assert not one.partition_failed(AttemptKey("nobody"), InternalError())
    assert one.new_attempt("unknown") is None
    refused = said[count:]
    assert [r.anomaly for r in refused if isinstance(r, Refused)] == [
        Anomaly.UNKNOWN_ATTEMPT, Anomaly.UNKNOWN_ATTEMPT, Anomaly.UNKNOWN_JOB,
    ]  # fmt: skip
    assert one.snapshot() == before


def test_steps_of_a_job_that_ended_are_no_anomalies_but_ends() -> None:
    said: list[Transition | Refused] = []
    one = tracker(said)
    one.register_job(JobInfo("j", "window-post", partitions=2))
    one.job_loading("j")
    one.job_running("j")
    first, second = one.new_attempt("j", 0), one.new_attempt("j", 1)
    assert first is not None and second is not None
    assert one.reserved(first) and one.partition_synth_start(first)
    assert one.job_cancelled("j", by="olga")
    assert not one.partition_synth_end(first) and not one.reserved(second)
    states = [one.snapshot().get(Entity.ATTEMPT, key.id).state for key in (first, second)]
    assert states == [Attempt.CANCELLED, Attempt.CANCELLED]
    assert not any(isinstance(r, Refused) for r in said)


def test_a_frozen_tracker_says_nothing_more() -> None:
    said: list[Transition | Refused] = []
    one = tracker(said)
    one.freeze()
    count = len(said)
    assert not one.register_job(JobInfo("j", "window-post")) and len(said) == count


def test_the_log_lines_that_operators_grep_for(log: LogCapture) -> None:
    for options in ({}, {"pipeline": False}):
        with Rig(**options) as rig:
            rig.submit("a")
            rig.await_job("a", "done")
    where = {"worker_id": 0, "gpu": 0, "sub_id": 0, "log_level": "info", "epoch": 1}
    assert {"event": "pipeline GPU worker started", **where} in log.entries
    assert {"event": "monolithic GPU worker started", **where} in log.entries
    picked = [e for e in log.entries if e["event"] == "GPU worker picked up synthesized proof"]
    assert [(e["job_id"], e["partition"]) for e in picked] == [("a", 0)]


def test_a_worker_is_shown_busy_from_before_to_after_it_is() -> None:
    """What the workers recorded outside the tracker: each front lies within what the worker says it did."""
    with Rig(devices=2) as rig:
        rig.submit("a", 12)
        rig.await_job("a", "done")
    busy = {o.attempt: o for o in rig.truth if o.what == "worker_busy"}
    free = {o.attempt: o for o in rig.truth if o.what == "worker_free"}
    assert len(busy) == len(free) == 12
    for n in range(12):
        name = f"a:{n}:1"
        times = {t.new: t.mono_ns for t in rig.log if t.entity_id == name}
        assert busy[name].mono_ns <= times["claimed"] <= times["finalizing"] <= free[name].mono_ns
        assert busy[name].where == free[name].where == rig.view(Entity.ATTEMPT, name).worker
