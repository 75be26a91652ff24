"""A fleet at work, told as the transitions that its tracker would write: a discrete-event model for tests of the page.

Every move passes `decide`, so a story is always legal; nothing is proved here.
"""

from __future__ import annotations

import heapq
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prover.states import (
    Entity,
    FleetState,
    Move,
    Refused,
    Transition,
    apply,
    attempt_id,
    decide,
    device_id,
    worker_id,
)

SITE = "00000000-0000-0000-0000-000000000000"
SECOND = 1_000_000


@dataclass(frozen=True)
class Durations:
    """Seconds that a partition spends, give or take a fifth."""

    synthesis: float
    device: float
    tail: float
    load: float = 0.4


KINDS = {
    "window-post": Durations(0.55, 1.15, 0.62),
    "winning-post": Durations(1.3, 3.2, 0.9),
    "porep-c2": Durations(1.6, 2.4, 0.7),
    "snap-update": Durations(1.1, 1.9, 0.6),
}


@dataclass
class Story:
    """One prover with its devices; `now_us` moves as the story is told."""

    now_us: int
    prover: str = "prover-1"
    devices: int = 2
    workers: int = 2  # a device
    synth_slots: int = 2
    ready_slots: int = 4
    scale: float = 1.0  # of all durations
    seed: int = 1
    fail: Callable[[str, int, int], bool] = lambda request, partition, attempt: False
    state: FleetState = field(default_factory=FleetState)
    told: list[Transition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.session = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        self._seqs: dict[str, int] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0
        self._synth_queue: list[tuple[int, int, int, str, int]] = []
        self._ready: list[tuple[int, int, int, str, int]] = []
        self._synth_active = 0
        self._device_busy: dict[int, bool] = dict.fromkeys(range(self.devices), False)
        self._waiting: dict[int, list[tuple[str, str, int]]] = {d: [] for d in range(self.devices)}
        self._jobs = 0

    # -- telling --------------------------------------------------------------------------------------------------

    def move(self, entity: Entity, entity_id: str, new: str, session: str | None = None, **words: Any) -> None:
        session = session or self.session
        seq = self._seqs.get(session, 0) + 1
        move = Move(session, entity, entity_id, new, **words)
        t = decide(self.state, move, seq=seq, at_us=self.now_us, mono_ns=self.now_us * 1000)
        assert not isinstance(t, Refused), t
        self._seqs[session] = seq
        apply(self.state, t)
        self.told.append(t)

    def move_job(self, job: str, new: str) -> None:
        """One move by hand, a millisecond later."""
        self.now_us += 1000
        self.move(Entity.JOB, job, new, job=job)

    def move_attempt(self, job: str, partition: int, new: str, worker: str | None = None) -> None:
        """One move by hand of a partition's first attempt, a millisecond later."""
        self.now_us += 1000
        self._attempt(job, partition, new, no=1, worker=worker)

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._counter += 1
        heapq.heappush(self._events, (self.now_us + int(seconds * SECOND), self._counter, what))

    def run(self, seconds: float) -> None:
        """Let that much time pass."""
        end = self.now_us + int(seconds * SECOND)
        while self._events and self._events[0][0] <= end:
            self.now_us, _, what = heapq.heappop(self._events)
            what()
        self.now_us = end

    def take(self) -> list[Transition]:
        """What was told since the last time."""
        told, self.told = self.told, []
        return told

    # -- the prover -----------------------------------------------------------------------------------------------

    def start(self, **facts: Any) -> None:
        """The session, its devices, workers and a key come up."""
        detail = {
            "prover": self.prover, "host": "prover-host", "pid": 4711, "version": "0.1.0", "platform": "cpu",
            "local_keys": True, "split": True, "pipeline": True,
        } | facts  # fmt: skip
        self.move(Entity.SESSION, self.session, "starting", detail=detail)
        for d in range(self.devices):
            named = {"ordinal": d, "name": f"CPU device {d}", "platform": "cpu", "memory_total_bytes": 12 * 2**30}
            self.move(Entity.DEVICE, device_id(self.prover, d), "online", detail=named)
            for w in range(self.workers):
                words = {"display": d * self.workers + w, "ordinal": d, "sub": w, "epoch": 1}
                self.move(Entity.WORKER, worker_id(self.prover, d, w), "online", detail=words)
        self.move(Entity.SESSION, self.session, "online")
        for kind, size in (("window-post", 5 * 2**20), ("winning-post", 41 * 2**20)):
            key = f"{self.prover}:key:{kind}-2KiB"
            self.move(Entity.HOLDING, key, "loading", detail={"name": f"{kind}-2KiB", "bytes": size})
            self.move(Entity.HOLDING, key, "ready")

    def submit(self, kind: str, request_id: str, partitions: int = 1, priority: int = 2, **facts: Any) -> str:
        """A person asks for a proof; the id of the job."""
        self._jobs += 1
        job = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        detail = {
            "request_id": request_id, "kind": kind, "number": self._jobs, "sector_size": 2048, "priority": priority,
            "partitions": partitions, "partition_index": 0, "miner_id": 1000, "sector_number": None,
            "submitted_by": "olga",
        } | facts  # fmt: skip
        self.move(Entity.JOB, job, "queued", SITE, job=job, detail=detail)
        self.after(0.05, lambda: self._load(job))
        return job

    def _detail(self, job: str) -> Any:
        return self.state.get(Entity.JOB, job).detail

    def _spend(self, seconds: float) -> float:
        return seconds * self.scale * self.random.uniform(0.8, 1.2)

    def _load(self, job: str) -> None:
        self.move(Entity.JOB, job, "loading", job=job)
        self.after(self._spend(KINDS[self._detail(job)["kind"]].load), lambda: self._begin(job))

    def _begin(self, job: str) -> None:
        self.move(Entity.JOB, job, "running", job=job)
        for partition in range(self._detail(job)["partitions"]):
            self._try(job, partition)

    def _try(self, job: str, partition: int) -> None:
        no = self.state.latest.get(f"{job}:{partition}", 0) + 1
        self._attempt(job, partition, "pending", no=no)
        self._synth_queue.append((*self._order(job), partition, job, no))
        self._feed()

    def _order(self, job: str) -> tuple[int, int]:
        return -self._detail(job)["priority"], self._detail(job)["number"]

    def _attempt(self, job: str, partition: int, new: str, no: int | None = None, **words: Any) -> None:
        no = no or self.state.latest[f"{job}:{partition}"]
        key = attempt_id(job, partition, no)
        self.move(Entity.ATTEMPT, key, new, job=job, partition=partition, attempt_no=no, **words)

    def _feed(self) -> None:
        self._synth_queue.sort()
        while self._synth_queue and self._synth_active < self.synth_slots and len(self._ready) < self.ready_slots:
            *_, partition, job, _no = self._synth_queue.pop(0)
            if self._dead(job):
                continue
            self._synth_active += 1
            self._attempt(job, partition, "reserved", detail={"bytes": 310 * 2**20})
            self._attempt(job, partition, "synthesizing")
            spend = self._spend(KINDS[self._detail(job)["kind"]].synthesis)
            self.after(spend, lambda job=job, partition=partition: self._synthesized(job, partition))  # type: ignore[misc]

    def _dead(self, job: str) -> bool:
        return self.state.get(Entity.JOB, job).state in ("done", "failed", "cancelled")

    def _synthesized(self, job: str, partition: int) -> None:
        self._synth_active -= 1
        self._attempt(job, partition, "ready")
        self._ready.append((*self._order(job), partition, job, 0))
        self._ready.sort()
        self._claim()
        self._feed()

    def _claim(self) -> None:
        for worker in sorted(self.state.views[Entity.WORKER]):
            free = self.state.front(worker) is None and self.state.admin(worker) == "enabled"
            if free and self.state.get(Entity.WORKER, worker).state == "online" and self._ready:
                *_, partition, job, _no = self._ready.pop(0)
                self._attempt(job, partition, "claimed", worker=worker)
                self.after(self._spend(0.06), lambda w=worker, j=job, p=partition: self._wait(w, j, p))  # type: ignore[misc]
        self._feed()

    def _wait(self, worker: str, job: str, partition: int) -> None:
        self._attempt(job, partition, "device_wait", worker=worker)
        device = int(worker.split("/")[-2])
        self._waiting[device].append((worker, job, partition))
        self._next(device)

    def _next(self, device: int) -> None:
        if self._device_busy[device] or not self._waiting[device]:
            return
        worker, job, partition = self._waiting[device].pop(0)
        self._device_busy[device] = True
        self._attempt(job, partition, "device", worker=worker)
        no = self.state.latest[f"{job}:{partition}"]
        spend = self._spend(KINDS[self._detail(job)["kind"]].device)
        if self.fail(self._detail(job)["request_id"], partition, no):
            self.after(spend / 2, lambda: self._fails(device, worker, job, partition))
        else:
            self.after(spend, lambda: self._handoff(device, worker, job, partition))

    def _fails(self, device: int, worker: str, job: str, partition: int) -> None:
        self._device_busy[device] = False
        words = {"error": "the device ran out of memory (asked for 1.2 GiB, 0.9 GiB free)"}
        self._attempt(job, partition, "failed", worker=worker, reason="device_memory", detail=words)
        self._try(job, partition)
        self._next(device)
        self._claim()

    def _handoff(self, device: int, worker: str, job: str, partition: int) -> None:
        self._device_busy[device] = False
        self._attempt(job, partition, "finalizing", worker=worker)
        spend = self._spend(KINDS[self._detail(job)["kind"]].tail)
        self.after(spend, lambda: self._done(worker, job, partition))
        self._next(device)
        self._claim()

    def _done(self, worker: str, job: str, partition: int) -> None:
        self._attempt(job, partition, "done", worker=worker)
        views = dict(self.state.attempts(job)).values()
        if sum(view.state == "done" for view in views) == self._detail(job)["partitions"]:
            self.move(Entity.JOB, job, "assembling", job=job)
            self.after(0.01, lambda: self.move(Entity.JOB, job, "verifying", job=job))
            kind = self._detail(job)["kind"]
            self.after(0.03, lambda: self.move(Entity.JOB, job, "done", job=job, detail={"kind": kind}))
