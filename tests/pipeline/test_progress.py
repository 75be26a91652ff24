"""A phase that takes many times its own median is told once, with the last thing that happened; by a virtual clock."""

from __future__ import annotations

from collections.abc import Callable

from prover.pipeline.clock import Clock
from prover.pipeline.progress import Progress
from prover.pipeline.sources import JobInfo
from prover.pipeline.tracker import StatusTracker
from prover.states import Entity
from tests.pipeline.controlled import Rig

W0 = "prover/0/0"


class Shop:
    """A tracker on a clock that the test turns, and its watcher."""

    def __init__(self) -> None:
        self.now_ns = 10**18
        clock = Clock(lambda: self.now_ns, lambda: self.now_ns)
        self.progress = Progress()
        self.tracker = StatusTracker("s", "prover", clock, [self.progress.sink])
        with Rig() as rig:  # an online worker
            slots, devices = rig.engine._worker_slots, [device.info for device in rig.devices]
        self.tracker.register_workers(devices, slots)
        self.tracker.worker_online(W0)

    def after(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    def told(self) -> list[tuple[Entity, str, str]]:
        return [(s.entity, s.entity_id, s.phase) for s in self.progress.look(self.tracker.clock.read_us())]

    def prove(self, job: str, seconds: float = 2.0, end: bool = True) -> None:
        """A job of one partition whose phases take so long."""
        tracker = self.tracker
        tracker.register_job(JobInfo(job, "window-post"))
        tracker.job_loading(job)
        self.after(seconds)
        tracker.job_running(job)
        key = tracker.new_attempt(job)
        assert key is not None
        steps: list[Callable[[], object]] = [
            lambda: tracker.reserved(key), lambda: tracker.partition_synth_start(key),
            lambda: self.after(seconds), lambda: tracker.partition_synth_end(key),
            lambda: tracker.partition_gpu_start(key, W0), lambda: tracker.device_wait(key),
            lambda: tracker.device_start(key), lambda: self.after(seconds),
        ]  # fmt: skip
        for step in steps:
            step()
        if end:
            tracker.handoff(key)
            self.after(seconds)
            tracker.partition_gpu_end(key)
            tracker.job_assembling(job)
            tracker.job_verifying(job)
            tracker.job_completed(job)


def test_a_device_phase_that_stands_still_is_told_once_with_what_happened_last() -> None:
    shop = Shop()
    for n in range(4):
        shop.prove(f"j{n}", 10.0)
    shop.prove("stuck", 10.0, end=False)
    assert shop.told() == []
    shop.after(39)  # 49 s: not yet five times the median
    assert shop.told() == []
    shop.after(2)
    [stalled] = shop.progress.look(shop.tracker.clock.read_us())
    assert (stalled.entity_id, stalled.phase) == ("stuck:0:1", "device")
    detail = stalled.detail()
    assert (detail["median_s"], detail["limit_s"]) == (10.0, 50.0)
    assert detail["last"]["id"] == "stuck:0:1" and detail["last"]["new"] == "device"
    assert shop.told() == [] and shop.progress.stalled() == 1
    shop.tracker.partition_failed(shop.tracker._attempts["stuck"][0], RuntimeError("at last"))
    assert shop.progress.stalled() == 0


def test_short_phases_and_unknown_ones_have_time() -> None:
    shop = Shop()
    for n in range(4):
        shop.prove(f"j{n}", 0.01)
    shop.prove("quick", 0.01, end=False)
    shop.after(29)
    assert shop.told() == [], "nobody is told of less than 30 s"
    shop.after(2)
    assert shop.told() == [(Entity.ATTEMPT, "quick:0:1", "device")]
    first = Shop()
    first.prove("first", 0.01, end=False)
    first.after(890)
    assert first.told() == [], "nobody knows how long this takes"
    first.after(20)
    assert first.told() == [(Entity.ATTEMPT, "first:0:1", "device")]


def test_a_job_that_is_loaded_for_ever_is_told_and_one_that_waits_is_not() -> None:
    shop = Shop()
    shop.tracker.register_job(JobInfo("waits", "window-post"))
    shop.tracker.register_job(JobInfo("loads", "window-post"))
    shop.tracker.job_loading("loads")
    shop.after(1000)
    assert shop.told() == [(Entity.JOB, "loads", "loading")]


def test_what_failed_or_was_given_back_makes_no_median() -> None:
    shop = Shop()
    for n in range(4):
        shop.prove(f"j{n}", 0.001, end=False)
        shop.tracker.partition_failed(shop.tracker._attempts[f"j{n}"][0], RuntimeError())
    shop.prove("first", 0.001, end=False)
    shop.after(100)
    assert shop.told() == []
