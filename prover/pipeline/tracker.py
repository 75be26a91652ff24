"""The one place where moves are decided in a session.

A call takes a short lock, asks `states.decide`, applies what it says, and hands the transition (or the refused move,
an anomaly) to the sinks, in order. Nothing is ever "cleared": who is busy with what is derived from the attempts. The
known names of the calls are kept: register_workers, register_job, partition_synth_start, partition_synth_end,
partition_gpu_start, partition_gpu_end, partition_failed, job_completed, set_queue_depth, snapshot.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import describe
from ..states import (
    ATTEMPT_ENDS,
    JOB_ENDS,
    JOB_LEASED,
    Admin,
    Attempt,
    Command,
    Entity,
    FleetState,
    Holding,
    Job,
    JsonObject,
    Lifecycle,
    Move,
    Refused,
    Transition,
    View,
    apply,
    claim_refusal,
    decide,
    unproven,
)
from .allocator import DeviceInfo, WorkerSlot
from .attempts import AttemptKey
from .clock import Clock
from .sources import EngineCommand, JobInfo, PriorAttempt
from .timings import timings

#: takes every transition and every refused move, in order, under the tracker's lock: it must return at once
Sink = Callable[[Transition | Refused], None]
T = TypeVar("T")

RETENTION_S = 600.0  # how long an ended job stays in the live state
_SWEPT = frozenset({Attempt.PENDING, Attempt.RESERVED, Attempt.READY})  # nobody works on these: they end with their job
_GIVEN_UP = frozenset({Attempt.CANCELLED, Attempt.SKIPPED, Attempt.LOST})  # by the tracker, whoever works on it
_AFTER_DEVICE = frozenset({Attempt.FINALIZING, Attempt.FINISHING})


def takes_work(state: FleetState, worker: str) -> bool:
    """Whether the worker takes work, now or once it is done with what it does; a thread that died is coming back."""
    device = state.get(Entity.DEVICE, worker.rpartition("/")[0]).state
    return device != Lifecycle.LOST and state.admin(worker) == Admin.ENABLED


class StatusTracker:
    """State of one session of one prover: devices, workers, jobs, attempts. Thread-safe; every call returns at once.

    A call that makes a move says whether it was accepted. For an attempt whose job ended meanwhile, `False` also means
    that the tracker has ended it (cancelled or skipped), so the caller simply stops.
    """

    def __init__(
        self, session: str, prover: str, clock: Clock | None = None, sinks: Iterable[Sink] = (), *,
        retention_s: float = RETENTION_S,
    ) -> None:  # fmt: skip
        self.session = session
        self.prover = prover
        self.clock = clock or Clock()
        self._sinks = tuple(sinks)
        self._retention_ns = int(retention_s * 1e9)
        self._state = FleetState()
        self._lock = threading.Lock()
        self._seq = 0
        self._frozen = False
        self._depth: int | None = None
        self._attempts: dict[str, list[AttemptKey]] = {}  # job -> its attempts in this session
        self._ended: deque[tuple[int, Entity, str]] = deque()  # (monotonic ns, what) to forget when retention is over
        self.calls = 0  # moves asked for, and the time they took: what tracking costs
        self.spent_ns = 0

    def freeze(self) -> None:
        """Make no move any more: the session is over, whatever its threads still want to say."""
        with self._lock:
            self._frozen = True

    # -- the session, its devices and workers -----------------------------------------------------------------------

    def session_starting(self, detail: JsonObject) -> bool:
        """First call of a session. `detail`: as docs/architecture.md has it."""
        return self._move(Entity.SESSION, self.session, Lifecycle.STARTING, detail=detail)

    def session_online(self) -> bool:
        """The engine takes work."""
        return self._move(Entity.SESSION, self.session, Lifecycle.ONLINE)

    def session_stopped(self, reason: str) -> bool:
        """Last call of a session that ends in order."""
        return self._move(Entity.SESSION, self.session, Lifecycle.STOPPED, reason=reason)

    def register_workers(self, devices: Sequence[DeviceInfo], workers: Sequence[WorkerSlot]) -> None:
        """Make all devices and workers known, by the ids that the loops use; a worker starts when its loop does."""
        for device in devices:
            self._move(Entity.DEVICE, device.id, Lifecycle.ONLINE, detail=device.detail())
        for worker in workers:
            self._move(Entity.WORKER, worker.id, Lifecycle.STARTING, detail=worker.detail(epoch=1))

    def worker_online(self, worker: str, epoch: int = 1) -> bool:
        """The loop of the worker runs; after a death, with a new epoch."""
        return self._move(Entity.WORKER, worker, Lifecycle.ONLINE, worker=worker, detail={"epoch": epoch})

    def worker_renewed(self, worker: str, epoch: int) -> bool:
        """Its thread was renewed: one life ends in order, the next begins. False, and no move, if it was not online."""
        with self._timed():
            if self._state.get(Entity.WORKER, worker).state != Lifecycle.ONLINE:
                return False
            self._ask(Move(self.session, Entity.WORKER, worker, Lifecycle.STOPPED, worker=worker, reason="restart"))
            online = Move(self.session, Entity.WORKER, worker, Lifecycle.ONLINE, worker=worker, detail={"epoch": epoch})
            return self._ask(online)

    def worker_lost(self, worker: str, error: BaseException) -> bool:
        """The worker's thread died. False, and no move, when it was lost already, with its device."""
        code, text = describe(error)
        with self._timed():
            lost = Move(
                self.session, Entity.WORKER, worker, Lifecycle.LOST, worker=worker, reason=code, detail={"error": text}
            )  # fmt: skip
            return self._state.get(Entity.WORKER, worker).state != Lifecycle.LOST and self._ask(lost)

    def worker_stopped(self, worker: str, reason: str) -> bool:
        """The worker's loop ended in order. False, and no move, when it is lost with its device."""
        return self._stop(Move(self.session, Entity.WORKER, worker, Lifecycle.STOPPED, worker=worker, reason=reason))

    def device_stopped(self, device: str, reason: str) -> bool:
        """The engine gave the device up. False, and no move, when it is lost."""
        return self._stop(Move(self.session, Entity.DEVICE, device, Lifecycle.STOPPED, reason=reason))

    def device_lost(self, device: str, workers: Sequence[str], error: BaseException) -> None:
        """The device is gone, and its workers with it; what they still do runs out."""
        code, text = describe(error)
        with self._timed():
            said: dict[str, Any] = {"reason": code, "detail": {"error": text}}
            self._ask(Move(self.session, Entity.DEVICE, device, Lifecycle.LOST, **said))
            for worker in workers:
                if self._state.get(Entity.WORKER, worker).state != Lifecycle.LOST:
                    self._ask(Move(self.session, Entity.WORKER, worker, Lifecycle.LOST, worker=worker, **said))

    def device_found(self, device: str, workers: Sequence[str]) -> bool:
        """The device is back, and so are its workers. False, and no move, while one of them has something in hand."""
        with self._timed():
            if self._frozen or any(self._state.front(worker) is not None for worker in workers):
                return False
            self._ask(Move(self.session, Entity.DEVICE, device, Lifecycle.ONLINE))
            for worker in workers:
                self._ask(Move(self.session, Entity.WORKER, worker, Lifecycle.ONLINE, worker=worker))
            return True

    def set_admin(
        self, worker: str, admin: Admin, *, by: str, reason: str | None = None, detail: JsonObject | None = None
    ) -> bool:
        """What people want of a worker, or the system when it quarantines one."""
        said = {**(detail or {}), "by": by}
        return self._move(Entity.ADMIN, worker, admin, worker=worker, reason=reason, detail=said)

    def recall_admin(self, worker: str, admin: Admin, at_us: int) -> None:
        """Start from a wish of earlier sessions, which belongs to the stable identity; it is no move."""
        self.clock.advance_to(at_us)
        with self._lock:
            self._state.views[Entity.ADMIN][worker] = View(state=admin, times={admin: at_us}, worker=worker)

    def holding(self, name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> bool:
        """A phase of a key (`key:NAME`) or a program (`program:NAME`); detail: name, bytes, progress, device."""
        return self._move(Entity.HOLDING, f"{self.prover}:{name}", state, reason=reason, detail=detail)

    def command(self, command: EngineCommand, state: Command, outcome: str | None = None) -> bool:
        """A command was taken, done or refused; one that the log already has as pending is recalled, not moved."""
        if state is not Command.PENDING:
            self._recall(Entity.COMMAND, command.id, Command.PENDING, command.at_us, {"action": command.action})
        detail = {
            "action": command.action, "target": command.target, "by": command.by, "outcome": outcome,
            "kind": command.kind,
        }  # fmt: skip
        accepted = self._move(Entity.COMMAND, command.id, state, detail=detail)
        if accepted and state in (Command.DONE, Command.REFUSED):
            self._forget_later(Entity.COMMAND, command.id)
        return accepted

    # -- jobs -------------------------------------------------------------------------------------------------------

    def register_job(self, info: JobInfo, prior: Mapping[int, PriorAttempt] | None = None) -> bool:
        """Make a job known. When nobody queued it before (no `queued_at_us`), this does."""
        with self._lock:
            self._attempts.setdefault(info.id, [])
            for partition, attempt in (prior or {}).items():
                cell = f"{info.id}:{partition}"
                self._state.latest[cell] = max(attempt.number, self._state.latest.get(cell, 0))
        if info.queued_at_us is None:
            return self._move(Entity.JOB, info.id, Job.QUEUED, job=info.id, detail=info.detail())
        return self._recall(Entity.JOB, info.id, Job.QUEUED, info.queued_at_us, info.detail())

    def job_loading(self, job: str) -> bool:
        """The job is this session's: its request is parsed and checked, its keys are found."""
        known = self.read(lambda state: state.get(Entity.JOB, job).detail)
        detail = {name: known[name] for name in ("kind", "sector_size") if name in known}
        return self._move(Entity.JOB, job, Job.LOADING, job=job, detail=detail)

    def job_running(self, job: str, detail: JsonObject | None = None) -> bool:
        """Its partitions may be worked on."""
        return self._move(Entity.JOB, job, Job.RUNNING, job=job, detail=detail or {})

    def job_assembling(self, job: str) -> bool:
        """All partitions have proofs."""
        return self._move(Entity.JOB, job, Job.ASSEMBLING, job=job)

    def job_verifying(self, job: str) -> bool:
        """The assembled proof is being verified."""
        return self._move(Entity.JOB, job, Job.VERIFYING, job=job)

    def job_completed(self, job: str, error: BaseException | None = None, detail: JsonObject | None = None) -> bool:
        """The job ended: done, or failed for `error`. What nobody works on is skipped; what is running runs out."""
        if error is None:
            return self._end_job(job, Job.DONE, None, detail or {})
        code, text = describe(error)
        return self._end_job(job, Job.FAILED, code, {**(detail or {}), "error": text, "error_code": code})

    def job_cancelled(self, job: str, *, by: str) -> bool:
        """Somebody cancelled the job. What nobody works on is cancelled; what is running runs out."""
        return self._end_job(job, Job.CANCELLED, "cancelled", {"by": by})

    def job_released(self, job: str, reason: str, *, by: str | None = None, held: bool = False) -> bool:
        """The session gives the job up, for itself or another to take again, or until it is released when it is held.

        Its open attempts are lost.
        """
        with self._timed():
            if not self._state.get(Entity.JOB, job).state:
                return False  # never its own: it may have ended elsewhere
            for key in self._attempts.get(job, ()):
                if self._view(key).state not in ATTEMPT_ENDS:
                    self._attempt(key, Attempt.LOST, reason=reason)
            self._ended.append((self.clock.mono_ns(), Entity.JOB, job))
            new, detail = Job.HELD if held else Job.QUEUED, {} if by is None else {"by": by}
            return self._ask(Move(self.session, Entity.JOB, job, new, job=job, reason=reason, detail=detail))

    def job_noted(self, job: str, reason: str, detail: JsonObject) -> bool:
        """Something about an open job changed (`reason`: one of `states.JOB_NOTES`), and its state did not."""
        with self._timed():
            state = self._state.get(Entity.JOB, job).state
            return self._ask(Move(self.session, Entity.JOB, job, state, job=job, reason=reason, detail=detail))

    # -- attempts ---------------------------------------------------------------------------------------------------

    def new_attempt(self, job: str, partition: int = 0, detail: JsonObject | None = None) -> AttemptKey | None:
        """A new attempt at a partition, pending; None when that is refused (the job ended, or one is open).

        Of one that waits before it is made, `detail` has `retry_at_us`, and in `after` the code of what failed.
        """
        with self._timed():
            key = AttemptKey(job, partition, self._state.latest.get(f"{job}:{partition}", 0) + 1)
            if not self._attempt(key, Attempt.PENDING, detail=detail or {}):
                return None
            self._attempts.setdefault(job, []).append(key)
            return key

    def reserved(self, key: AttemptKey, detail: JsonObject | None = None) -> bool:
        """It may take its memory: `bytes` in the detail."""
        return self._step(key, Attempt.RESERVED, detail=detail)

    def partition_synth_start(self, key: AttemptKey) -> bool:
        """Its witness and a, b, c are being computed."""
        return self._step(key, Attempt.SYNTHESIZING)

    def partition_synth_end(self, key: AttemptKey) -> bool:
        """It is ready for a device."""
        return self._step(key, Attempt.READY)

    def partition_gpu_start(self, key: AttemptKey, worker: str) -> bool:
        """A worker claims it: from now on it is the worker's front."""
        return self._step(key, Attempt.CLAIMED, worker=worker)

    def claim_unsynthesised(self, key: AttemptKey, worker: str) -> bool:
        """The monolithic loop: a worker takes a pending attempt for all phases; False, and no trace, if it may not."""
        with self._timed():
            waits = self._view(key).state == Attempt.PENDING and self._stop_word(key) is None
            if not waits or claim_refusal(self._state, worker) is not None:
                return False
            return self._attempt(key, Attempt.RESERVED) and self._attempt(key, Attempt.CLAIMED, worker=worker)

    def device_wait(self, key: AttemptKey) -> bool:
        """Its worker waits for the device."""
        return self._step(key, Attempt.DEVICE_WAIT)

    def device_start(self, key: AttemptKey) -> bool:
        """Its worker holds the device."""
        return self._step(key, Attempt.DEVICE)

    def handoff(self, key: AttemptKey, detail: JsonObject | None = None) -> bool:
        """Split proving: the device's outputs are ready, the worker is free, the tail runs elsewhere."""
        return self._record(key, Attempt.FINALIZING, detail=detail)

    def finishing(self, key: AttemptKey, detail: JsonObject | None = None) -> bool:
        """Synchronous proving: the device's outputs are ready, the worker computes the tail."""
        return self._record(key, Attempt.FINISHING, detail=detail)

    def partition_gpu_end(self, key: AttemptKey, detail: JsonObject | None = None) -> bool:
        """Its proof is verified: done; or, when the job ended meanwhile, cancelled (then the answer is False)."""
        with self._timed():
            stop = self._stop_word(key)
            if stop is not None and self._view(key).state in _AFTER_DEVICE:
                self._attempt(key, stop, reason=self._stop_reason(key), detail=detail or {})
                return False
            return self._attempt(key, Attempt.DONE, detail=detail or {})

    def partition_failed(self, key: AttemptKey, error: BaseException) -> bool:
        """It failed, for `error`."""
        code, text = describe(error)
        return self._record(key, Attempt.FAILED, reason=code, detail={"error": text})

    def partition_skipped(self, key: AttemptKey, reason: str) -> bool:
        """It is not needed any more (`result_arrived`)."""
        return self._record(key, Attempt.SKIPPED, reason=reason)

    def skip_if_waiting(self, key: AttemptKey, reason: str) -> bool:
        """Skip an attempt that nobody works on; whether it was one."""
        with self._timed():
            view = self._view(key)
            return view.state in _SWEPT and view.worker is None and self._attempt(key, Attempt.SKIPPED, reason=reason)

    def worker_of(self, key: AttemptKey) -> str | None:
        """Who claimed the attempt."""
        with self._lock:
            return self._view(key).worker

    def in_hand(self, job: str) -> bool:
        """Whether a worker, or the tail that it handed off, is busy with one of the job's attempts."""
        with self._lock:
            views = [self._view(key) for key in self._attempts.get(job, ())]
            return any(view.worker is not None and view.state not in ATTEMPT_ENDS for view in views)

    def able(self) -> list[str]:
        """The workers that take work, now or once they are done with what they do."""
        return self.read(lambda state: [worker for worker in state.views[Entity.WORKER] if takes_work(state, worker)])

    def may_claim(self, worker: str) -> bool:
        """Whether the worker may claim something now; asking is no anomaly."""
        return self.read(lambda state: claim_refusal(state, worker) is None)

    def is_open(self, key: AttemptKey) -> bool:
        """Whether the attempt exists and has not ended, and neither has its job."""
        with self._lock:
            return self._view(key).state not in ATTEMPT_ENDS | {""} and self._stop_word(key) is None

    def is_cancelled(self, job: str) -> bool:
        """Whether somebody cancelled the job."""
        return self.read(lambda state: state.get(Entity.JOB, job).state == Job.CANCELLED)

    def all_proven(self, job: str) -> bool:
        """Whether no partition's attempt is open, failed or cancelled."""
        return self.read(lambda state: not unproven(state, job))

    def timings(self, job: str) -> dict[str, int]:
        """Milliseconds by phase until now."""
        with self._lock:
            return timings(self._state, job, [key.id for key in self._attempts.get(job, ())])

    # -- reading ----------------------------------------------------------------------------------------------------

    def set_queue_depth(self, depth: int | None) -> None:
        """How many jobs wait to be claimed, as far as the prover knows; a gauge."""
        self._depth = depth

    def snapshot(self) -> FleetState:
        """The state of this moment, independent of later ones."""
        with self._lock:
            return self._state.copy()

    def read(self, question: Callable[[FleetState], T]) -> T:
        """The answer to a quick question about the live state."""
        with self._lock:
            return question(self._state)

    def kind_of(self, job: str) -> str:
        """The kind of a job, for sinks: they have the lock already."""
        return str(self._state.get(Entity.JOB, job).detail.get("kind", "unknown"))

    def gauges(self) -> dict[str, int]:
        """Counts of what goes on now."""
        gauges = self.snapshot().gauges()
        return gauges if self._depth is None else {**gauges, "queue_depth": self._depth}

    # -- inside the lock --------------------------------------------------------------------------------------------

    @contextmanager
    def _timed(self) -> Iterator[None]:
        with self._lock:
            start = time.perf_counter_ns()
            try:
                yield
            finally:
                self.spent_ns += time.perf_counter_ns() - start

    def _ask(self, move: Move) -> bool:
        """Decide, apply and publish one move."""
        if self._frozen:
            return False
        self.calls += 1
        made = decide(
            self._state, move, seq=self._seq + 1, at_us=self.clock.now_us(), mono_ns=self.clock.mono_ns()
        )  # fmt: skip
        if isinstance(made, Transition):
            self._seq = made.seq
            apply(self._state, made)
        for sink in self._sinks:
            sink(made)
        return isinstance(made, Transition)

    def _stop(self, move: Move) -> bool:
        with self._timed():
            return self._state.get(move.entity, move.entity_id).state != Lifecycle.LOST and self._ask(move)

    def _attempt(self, key: AttemptKey, new: Attempt, **more: Any) -> bool:
        return self._ask(Move(
            self.session, Entity.ATTEMPT, key.id, new, key.job, key.partition, key.number,
            more.pop("worker", None) or self._view(key).worker, **more,
        ))  # fmt: skip

    def _view(self, key: AttemptKey) -> View:
        return self._state.get(Entity.ATTEMPT, key.id)

    def _stop_word(self, key: AttemptKey) -> Attempt | None:
        """How an attempt ends when its job ended before it: None while the job is open."""
        job = self._state.get(Entity.JOB, key.job).state
        if job not in JOB_ENDS:
            return None
        dropped = job == Job.CANCELLED or self._view(key).state in _AFTER_DEVICE
        return Attempt.CANCELLED if dropped else Attempt.SKIPPED

    def _stop_reason(self, key: AttemptKey) -> str:
        return f"job_{self._state.get(Entity.JOB, key.job).state}"

    def _forget(self) -> None:
        """Drop what ended longer ago than the retention, so that the live state stays small."""
        limit = self.clock.mono_ns() - self._retention_ns
        for _ in range(len(self._ended)):
            since, entity, name = self._ended.popleft()
            if since > limit:
                self._ended.appendleft((since, entity, name))
                return
            if any(self._view(key).state not in ATTEMPT_ENDS for key in self._attempts.get(name, ())):
                self._ended.append((self.clock.mono_ns(), entity, name))
            elif self._state.get(entity, name).state not in JOB_LEASED:  # else it was claimed again
                self._drop(entity, name)

    def _drop(self, entity: Entity, name: str) -> None:
        self._state.views[entity].pop(name, None)
        for key in self._attempts.pop(name, ()):
            self._state.views[Entity.ATTEMPT].pop(key.id, None)
            self._state.latest.pop(f"{key.job}:{key.partition}", None)

    # -- with the lock ----------------------------------------------------------------------------------------------

    def _move(self, entity: Entity, name: str, new: str, **more: Any) -> bool:
        with self._timed():
            return self._ask(Move(self.session, entity, name, new, **more))

    def _record(
        self, key: AttemptKey, new: Attempt, *, reason: str | None = None, detail: JsonObject | None = None
    ) -> bool:
        with self._timed():
            return self._attempt(key, new, reason=reason, detail=detail or {})

    def _step(
        self, key: AttemptKey, new: Attempt, *, worker: str | None = None, detail: JsonObject | None = None
    ) -> bool:
        """A step forward; or the attempt's end, when its job has ended; or nothing, when the tracker has ended it."""
        with self._timed():
            stop = self._stop_word(key)
            if stop is None and self._view(key).state not in _GIVEN_UP:
                return self._attempt(key, new, worker=worker, detail=detail or {})
            if stop is not None and self._view(key).state not in ATTEMPT_ENDS:
                self._attempt(key, stop, reason=self._stop_reason(key))
            return False

    def _end_job(self, job: str, end: Job, reason: str | None, detail: JsonObject) -> bool:
        with self._timed():
            self._forget()
            kind = self._state.get(Entity.JOB, job).detail.get("kind", "unknown")
            move = Move(self.session, Entity.JOB, job, end, job=job, reason=reason, detail={"kind": kind, **detail})
            if not self._ask(move):
                return False
            for key in self._attempts.get(job, ()):
                self._sweep(key)
            self._ended.append((self.clock.mono_ns(), Entity.JOB, job))
            return True

    def _sweep(self, key: AttemptKey) -> None:
        view, stop = self._view(key), self._stop_word(key)
        if stop is not None and view.state in _SWEPT and view.worker is None:
            self._attempt(key, stop, reason=self._stop_reason(key))

    def _recall(self, entity: Entity, name: str, state: str, at_us: int, detail: JsonObject) -> bool:
        """Start from what the log has already: no move of this session."""
        self.clock.advance_to(at_us)
        with self._lock:
            if not self._state.get(entity, name).state:
                job = name if entity is Entity.JOB else None
                self._state.views[entity][name] = View(state=state, times={state: at_us}, detail=detail, job=job)
            return True

    def _forget_later(self, entity: Entity, name: str) -> None:
        with self._lock:
            self._ended.append((self.clock.mono_ns(), entity, name))
