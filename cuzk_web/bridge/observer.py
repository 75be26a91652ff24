"""From what a daemon says to moves that are certain, by the guards and the fold of everybody else.

An original daemon says of a partition "gpu" from the moment a worker takes it to the end of its CPU tail, and its
workers may read idle while they compute. So:

* What a worker took, it holds until the partition's end, or until it takes another: then the first one is in its tail.
* Its phases on the device are not known: it stays `claimed`.
* A partition on the GPU whose worker was never seen is held by a worker of its own, "W?".
* A worker that reads idle while what it took is on the GPU is a phantom idle, and so is every one when all read idle.
* A job is done when all its partitions were seen done and the daemon has dropped it. One that goes otherwise ends
  cancelled with the code `end_unknown`; one that was open when the daemon was started anew fails as `daemon_restarted`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cuzk_web.live.retention import forget
from cuzk_web.live.rows import SITE
from prover.states import (
    ATTEMPT_ENDS,
    FRONT,
    Attempt,
    Entity,
    FleetState,
    Holding,
    Job,
    Lifecycle,
    Move,
    Refused,
    Transition,
    apply,
    attempt_id,
    decide,
    device_id,
    worker_id,
)

from .status import GpuWorker, Partition, Pipeline, Status

AGAIN_S: Final = 5.0  # by which a job's start may wander; more, and it is another job of the same id
KEY_POLLS: Final = 60  # an original daemon lists no keys while it loads one: gone so often in a row, and it is gone
MOST_SAID: Final = 10_000  # oddities that are remembered, to be said once
MOST_UNKNOWN: Final = 64  # partitions on the GPU whose worker is not known
FORWARD: Final = (
    Attempt.PENDING, Attempt.RESERVED, Attempt.SYNTHESIZING, Attempt.READY, Attempt.CLAIMED, Attempt.DEVICE_WAIT,
    Attempt.DEVICE, Attempt.FINALIZING, Attempt.DONE,
)  # fmt: skip
TARGETS: Final[Mapping[str, Attempt]] = {
    "pending": Attempt.PENDING, "synthesizing": Attempt.SYNTHESIZING, "synth_done": Attempt.READY,
    "gpu": Attempt.CLAIMED, "done": Attempt.DONE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Queued:
    """The row of a job that is watched: when the site queued it, and the newest attempt of each partition."""

    id: str
    number: int
    at_us: int
    seq: int
    detail: Mapping[str, Any]
    attempts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Odd:
    """What a daemon says that cannot be."""

    code: str
    entity: str
    entity_id: str
    old: str
    new: str
    text: str


@dataclass(slots=True)
class Watched:
    """A job that is open."""

    id: str
    pipeline: Pipeline
    started_at_s: float  # of the daemon's uptime
    attempts: dict[int, int] = field(default_factory=dict)


class Observer:
    """One session. `queue` makes the row of a job; `take` gives what has happened since the last time."""

    def __init__(self, session: str, source: str, host: str, queue: Callable[[Pipeline], Queued]) -> None:
        self.session, self.source, self._queue = session, source, queue
        self.state = FleetState()
        self._moved: list[Transition] = []
        self._odd: list[Odd] = []
        self._said: set[tuple[str, str]] = set()
        self._jobs: dict[str, Watched] = {}
        self._missing: dict[str, int] = {}
        self._uptime_s: float | None = None
        self._now_us = self._seq = 0
        self._host = host

    def restarted(self, status: Status) -> bool:
        """Whether the daemon was started anew since the last look."""
        return self._uptime_s is not None and status.uptime_s < self._uptime_s

    def take(self) -> tuple[list[Transition], list[Odd]]:
        """Moves and oddities since the last call."""
        moved, odd = self._moved, self._odd
        self._moved, self._odd = [], []
        return moved, odd

    def observe(self, status: Status, now_us: int) -> None:
        """Take a look; `now_us` is the database's time."""
        self._now_us = max(now_us, self._now_us + 1)
        self._begin()
        self._uptime_s = status.uptime_s
        self._workers(status)
        self._keys(status)
        self._gone(status)
        for pipeline in status.pipelines:
            self._job(pipeline, status.uptime_s)
        self._ends_and_waits(status)
        self._on_gpu(status)
        self._phantoms(status)
        self._completed()
        forget(self.state, self._now_us)
        if len(self._said) > MOST_SAID:
            self._said.clear()

    def end(self, now_us: int) -> None:
        """The daemon was started anew: it keeps its jobs in memory alone."""
        self._now_us = max(now_us, self._now_us + 1)
        for name in list(self._jobs):
            job = self._jobs[name]
            if self.state.get(Entity.JOB, job.id).state == Job.ASSEMBLING:
                self._end_unknown(name)
            else:
                self._fail(
                    name, "daemon_restarted", "the daemon was started anew, and it keeps its jobs in memory alone"
                )

    # -- what there is ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.state.get(Entity.SESSION, self.session).state:
            return
        detail = {"prover": self.source, "host": self._host, "pid": None, "version": "original", "platform": "unknown",
                  "source": self.source}  # fmt: skip
        self._move(Entity.SESSION, self.session, Lifecycle.STARTING, detail=detail)
        self._move(Entity.SESSION, self.session, Lifecycle.ONLINE)

    def _workers(self, status: Status) -> None:
        for gpu in sorted({worker.gpu for worker in status.workers}):
            key = device_id(self.source, gpu)
            if not self.state.get(Entity.DEVICE, key).state:
                detail = {"ordinal": gpu, "name": f"GPU {gpu}", "platform": "gpu"}
                self._move(Entity.DEVICE, key, Lifecycle.ONLINE, detail=detail)
        for worker in status.workers:
            self._worker(self._name(worker), worker.gpu, worker.number, worker.number)

    def _worker(self, key: str, ordinal: int, number: int, display: int | str) -> None:
        if not self.state.get(Entity.WORKER, key).state:
            sub = number if ordinal >= 0 else -1 - number
            detail = {"display": display, "number": sub, "ordinal": ordinal, "sub": number, "epoch": 1}
            self._move(Entity.WORKER, key, Lifecycle.ONLINE, worker=key, detail=detail)

    def _name(self, worker: GpuWorker) -> str:
        return worker_id(self.source, worker.gpu, worker.number)

    def _keys(self, status: Status) -> None:
        for name, size in status.keys.items():
            key = f"{self.source}:key:{name}"
            self._missing.pop(key, None)
            if self.state.get(Entity.HOLDING, key).state in ("", Holding.EVICTED):
                detail = {"name": name, "bytes": size}
                if self.state.get(Entity.HOLDING, key).state:
                    self._move(Entity.HOLDING, key, Holding.LOADING, detail=detail)
                self._move(Entity.HOLDING, key, Holding.READY, detail=detail)
        present = {f"{self.source}:key:{name}" for name in status.keys}
        for key, view in list(self.state.views[Entity.HOLDING].items()):
            if key not in present and view.state == Holding.READY:
                self._missing[key] = self._missing.get(key, 0) + 1
                if self._missing[key] >= KEY_POLLS:
                    self._move(Entity.HOLDING, key, Holding.EVICTED)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _gone(self, status: Status) -> None:
        """Jobs that the daemon shows no more, or under whose id it shows another."""
        shown = {pipeline.job: pipeline for pipeline in status.pipelines}
        for name, job in list(self._jobs.items()):
            now = shown.get(name)
            started_s = None if now is None else status.uptime_s - now.started_s
            same = now is not None and len(now.partitions) == len(job.pipeline.partitions)
            if same and started_s is not None and started_s <= job.started_at_s + AGAIN_S:
                continue
            if self.state.get(Entity.JOB, job.id).state == Job.ASSEMBLING:
                self._done(name)
            else:
                self._end_unknown(name)

    def _job(self, pipeline: Pipeline, uptime_s: float) -> None:
        if (known := self._jobs.get(pipeline.job)) is not None:
            known.pipeline = pipeline
            return
        if (pipeline.job, str(round(uptime_s - pipeline.started_s))) in self._said:
            return  # it failed, and an original daemon shows that for ever
        queued = self._queue(pipeline)
        self._now_us = max(self._now_us, queued.at_us + 1)
        words: dict[str, Any] = {"job": queued.id, "detail": queued.detail}
        site = Transition(SITE, queued.seq, queued.at_us, 0, Entity.JOB, queued.id, "", Job.QUEUED, **words)
        apply(self.state, site)
        self.state.heads.pop(SITE, None)
        self._jobs[pipeline.job] = Watched(queued.id, pipeline, uptime_s - pipeline.started_s)
        for state in (Job.LOADING, Job.RUNNING):
            self._move(Entity.JOB, queued.id, state, job=queued.id)
        for partition in pipeline.partitions:
            self._jobs[pipeline.job].attempts[partition.index] = queued.attempts.get(partition.index, 0) + 1
            self._attempt(self._jobs[pipeline.job], partition.index, Attempt.PENDING)

    def _completed(self) -> None:
        for name, job in list(self._jobs.items()):
            states = {partition.state for partition in job.pipeline.partitions}
            if "failed" in states:
                self._said.add((name, str(round(job.started_at_s))))
                self._fail(name, "daemon_failed", "a partition failed; an original daemon does not say why")
            elif states == {"done"} and self.state.get(Entity.JOB, job.id).state == Job.RUNNING:
                self._move(Entity.JOB, job.id, Job.ASSEMBLING, job=job.id)

    def _done(self, name: str) -> None:
        job = self._jobs.pop(name)
        self._move(Entity.JOB, job.id, Job.VERIFYING, job=job.id)
        self._move(Entity.JOB, job.id, Job.DONE, job=job.id, detail={"kind": job.pipeline.kind})

    def _fail(self, name: str, code: str, text: str) -> None:
        self._end(name, Job.FAILED, code, text)

    def _end_unknown(self, name: str) -> None:
        self._end(name, Job.CANCELLED, "end_unknown", "the daemon shows it no more, and nobody saw its end")

    def _end(self, name: str, state: str, code: str, text: str) -> None:
        job = self._jobs.pop(name)
        for number in list(job.attempts):
            if self._state_of(job, number) not in ATTEMPT_ENDS:
                self._attempt(job, number, Attempt.LOST, reason=code)
        detail = {"kind": job.pipeline.kind, "error": text, "error_code": code}
        self._move(Entity.JOB, job.id, state, job=job.id, reason=code, detail=detail)

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _ends_and_waits(self, status: Status) -> None:
        """All but who is on the GPU: that frees workers for what they took since."""
        taken = {(w.job, w.partition): self._name(w) for w in status.workers if w.proving}
        for job, partition in self._partitions():
            if partition.state == "failed" and self._state_of(job, partition.index) not in ATTEMPT_ENDS:
                self._fail_attempt(job, partition.index)
            elif partition.state not in ("gpu", "failed"):
                worker = taken.get((job.pipeline.job, partition.index))
                self._forward(job, partition, TARGETS[partition.state], worker)

    def _on_gpu(self, status: Status) -> None:
        held = {(w.job, w.partition): self._name(w) for w in status.workers if w.proving}
        for job, partition in self._partitions():
            if partition.state == "gpu" and (worker := held.get((job.pipeline.job, partition.index))) is not None:
                self._forward(job, partition, Attempt.CLAIMED, worker)
        for job, partition in self._partitions():
            if partition.state == "gpu":
                self._forward(job, partition, Attempt.CLAIMED, None)

    def _partitions(self) -> Iterator[tuple[Watched, Partition]]:
        return ((job, partition) for job in self._jobs.values() for partition in job.pipeline.partitions)

    def _forward(self, job: Watched, partition: Partition, target: Attempt, worker: str | None) -> None:
        """Step to the target by legal moves; never back."""
        state = self._state_of(job, partition.index)
        if state in ATTEMPT_ENDS or state not in FORWARD:
            return
        for step in FORWARD[FORWARD.index(Attempt(state)) + 1 : FORWARD.index(target) + 1]:
            if step is Attempt.CLAIMED:
                worker = worker or self._unknown()
                if worker is None:
                    return
                self._hand_off(worker)
            times = {"synth_ms": partition.synth_ms, "gpu_ms": partition.gpu_ms} if step is Attempt.DONE else {}
            self._attempt(job, partition.index, step, worker=worker if step is Attempt.CLAIMED else None, detail=times)

    def _hand_off(self, worker: str) -> None:
        """It took another: what it had is in its tail."""
        front = self.state.front(worker)
        while front is not None:
            view = self.state.get(Entity.ATTEMPT, front)
            for step in FORWARD[FORWARD.index(Attempt(view.state)) + 1 : FORWARD.index(Attempt.FINALIZING) + 1]:
                self._move(
                    Entity.ATTEMPT, front, step, job=view.job, partition=view.partition, attempt_no=view.attempt_no
                )
            front = self.state.front(worker)

    def _unknown(self) -> str | None:
        """A worker that nobody has seen, and that is free."""
        for number in range(MOST_UNKNOWN):
            key = worker_id(self.source, -1, number)
            self._worker(key, -1, number, "?")
            if self.state.front(key) is None:
                return key
        return None

    def _fail_attempt(self, job: Watched, number: int) -> None:
        if self._state_of(job, number) == Attempt.PENDING:
            self._attempt(job, number, Attempt.RESERVED)
        self._attempt(job, number, Attempt.FAILED, reason="daemon_failed")

    # -- what cannot be -----------------------------------------------------------------------------------------------

    def _phantoms(self, status: Status) -> None:
        idle = [worker for worker in status.workers if not worker.proving]
        shown = {(job.id, p.index): (job, p) for job, p in self._partitions() if p.state == "gpu"}
        for worker in idle:
            view = self.state.get(Entity.ATTEMPT, self.state.front(self._name(worker)) or "")
            if (found := shown.get((view.job or "", view.partition or 0))) is not None:
                self._phantom(f"W{worker.number}", self._name(worker), *found)
        if idle and len(idle) == len(status.workers):
            for job, partition in shown.values():
                view = self.state.get(Entity.ATTEMPT, self._key(job, partition.index))
                if view.state in FRONT and (view.worker or "").startswith(f"{self.source}/-1/"):
                    self._phantom("every worker", view.worker or "", job, partition)

    def _phantom(self, who: str, worker: str, job: Watched, partition: Partition) -> None:
        spent = "" if partition.gpu_ms is None else f", for {partition.gpu_ms / 1000:.1f} s"
        text = f"the daemon says that {who} is idle, but P{partition.index} of {job.pipeline.job} is on the GPU{spent}"
        self._note("phantom_idle", "worker", worker, "idle", "proving", text, self._key(job, partition.index))

    def _note(self, code: str, entity: str, key: str, old: str, new: str, text: str, once: str) -> None:
        if (code, once) not in self._said:
            self._said.add((code, once))
            self._odd.append(Odd(code, entity, key, old, new, text))

    # -- moves --------------------------------------------------------------------------------------------------------

    def _key(self, job: Watched, number: int) -> str:
        return attempt_id(job.id, number, job.attempts[number])

    def _state_of(self, job: Watched, number: int) -> str:
        return self.state.get(Entity.ATTEMPT, self._key(job, number)).state

    def _attempt(self, job: Watched, number: int, new: str, **more: Any) -> None:
        names = {"job": job.id, "partition": number, "attempt_no": job.attempts[number]}
        self._move(Entity.ATTEMPT, self._key(job, number), new, **names, **more)

    def _move(self, entity: Entity, key: str, new: str, **more: Any) -> None:
        self._now_us += 1
        move = Move(self.session, entity, key, new, **more)
        t = decide(self.state, move, seq=self._seq + 1, at_us=self._now_us, mono_ns=time.monotonic_ns())
        if isinstance(t, Refused):
            self._note(
                t.anomaly.value, entity.value, key, t.old, new, "the daemon's status asks for it", f"{key} {new}"
            )
            return
        self._seq += 1
        apply(self.state, t)
        self._moved.append(t)
