"""The guards: whether a move that somebody asks for is accepted, or is an anomaly. Pure, like the fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .enums import ATTEMPT_ENDS, JOB_ENDS, JOB_LEASED, JOB_NOTES, Admin, Anomaly, Attempt, Entity, Job, Lifecycle
from .model import FleetState, View
from .table import legal
from .transition import JsonObject, Transition, attempt_id


@dataclass(frozen=True, slots=True)
class Move:
    """A wish: take `entity_id` to state `new`. Who asks is `session`; `worker` is who claims or ends an attempt."""

    session: str
    entity: Entity
    entity_id: str
    new: str
    job: str | None = None
    partition: int | None = None
    attempt_no: int | None = None
    worker: str | None = None
    reason: str | None = None
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A move that was not made, and why."""

    move: Move
    anomaly: Anomaly
    old: str
    at_us: int


def decide(state: FleetState, move: Move, *, seq: int, at_us: int, mono_ns: int) -> Transition | Refused:
    """The transition that `move` makes of `state`, numbered `seq`; or why it is refused. `state` is not changed."""
    old = state.get(move.entity, move.entity_id)
    before = old.state or (Admin.ENABLED if move.entity is Entity.ADMIN else "")
    refusal = _illegal(move, before) or _fenced(state, move) or _GUARDS.get(move.entity, _accept)(state, move, old)
    if refusal is not None:
        return Refused(move, refusal, before, at_us)
    return Transition(
        move.session, seq, at_us, mono_ns, move.entity, move.entity_id, before, move.new, move.job, move.partition,
        move.attempt_no, move.worker, move.reason, move.detail,
    )  # fmt: skip


def claim_refusal(state: FleetState, worker: str) -> Anomaly | None:
    """Why `worker` may not claim anything now, or None when it may."""
    if not state.get(Entity.WORKER, worker).state:
        return Anomaly.UNKNOWN_WORKER
    if state.get(Entity.WORKER, worker).state != Lifecycle.ONLINE or state.admin(worker) != Admin.ENABLED:
        return Anomaly.WORKER_NOT_AVAILABLE
    return Anomaly.WORKER_BUSY if state.front(worker) is not None else None


def _illegal(move: Move, before: str) -> Anomaly | None:
    if legal(move.entity, before, move.new):
        return None
    if move.entity is Entity.ATTEMPT:
        if before in ATTEMPT_ENDS:
            return Anomaly.DUPLICATE_END
        if not before:
            return Anomaly.UNKNOWN_ATTEMPT
        if move.new in ATTEMPT_ENDS:
            return Anomaly.END_BEFORE_START
    if move.entity is Entity.JOB and before in JOB_ENDS:
        return Anomaly.DUPLICATE_END
    return Anomaly.ILLEGAL_MOVE


def _fenced(state: FleetState, move: Move) -> Anomaly | None:
    """A session that ended says nothing more."""
    gone = move.entity is not Entity.SESSION and _is_gone(state, move.session)
    return Anomaly.STALE_SESSION if gone else None


def _accept(_state: FleetState, _move: Move, _old: View) -> Anomaly | None:
    return None


def _guard_attempt(state: FleetState, move: Move, old: View) -> Anomaly | None:
    if _is_foreign(move, old) and not (move.new == Attempt.LOST and _is_gone(state, old.session)):
        return Anomaly.STALE_SESSION
    if old.worker is not None and move.worker is not None and move.worker != old.worker:
        return Anomaly.UNKNOWN_WORKER
    guard = _ATTEMPT_GUARDS.get(move.new)
    return None if guard is None else guard(state, move, old)


def _is_foreign(move: Move, old: View) -> bool:
    return old.session is not None and old.session != move.session


def _is_gone(state: FleetState, session: str | None) -> bool:
    return state.get(Entity.SESSION, session or "").state in (Lifecycle.LOST, Lifecycle.STOPPED)


def _guard_pending(state: FleetState, move: Move, _old: View) -> Anomaly | None:
    job = state.get(Entity.JOB, move.job or "")
    if not job.state:
        return Anomaly.UNKNOWN_JOB
    if job.state in JOB_ENDS:
        return Anomaly.JOB_ENDED
    if move.job is None or move.partition is None or move.attempt_no is None:
        return Anomaly.UNKNOWN_ATTEMPT
    if job.state != Job.RUNNING:
        return Anomaly.ILLEGAL_MOVE
    if _is_foreign(move, job):
        return Anomaly.STALE_SESSION
    latest = state.latest.get(f"{move.job}:{move.partition}", 0)
    previous = state.get(Entity.ATTEMPT, attempt_id(move.job, move.partition, latest)).state
    if previous == Attempt.DONE:
        return Anomaly.RESULT_EXISTS
    return Anomaly.ATTEMPT_OPEN if latest >= move.attempt_no or (previous and previous not in ATTEMPT_ENDS) else None


def _guard_synthesizing(_state: FleetState, _move: Move, old: View) -> Anomaly | None:
    """Once only: a claimed attempt that is ready goes on to the device."""
    return Anomaly.ILLEGAL_MOVE if Attempt.READY in old.times else None


def _guard_claimed(state: FleetState, move: Move, old: View) -> Anomaly | None:
    if move.worker is None:
        return Anomaly.UNKNOWN_WORKER
    if old.worker is not None:
        return Anomaly.ILLEGAL_MOVE
    if state.get(Entity.JOB, old.job or "").state in JOB_ENDS:
        return Anomaly.JOB_ENDED
    if state.get(Entity.WORKER, move.worker).session not in (None, move.session):
        return Anomaly.STALE_SESSION
    return claim_refusal(state, move.worker)


def _guard_device_wait(_state: FleetState, _move: Move, old: View) -> Anomaly | None:
    """Only what a worker holds, and what is synthesised, may wait for a device."""
    return None if old.worker is not None and Attempt.READY in old.times else Anomaly.ILLEGAL_MOVE


def _guard_device(state: FleetState, _move: Move, old: View) -> Anomaly | None:
    """At most one attempt computes on a physical device: the workers of a device share its prefix."""
    device = (old.worker or "").rpartition("/")[0]
    for worker, held in state.held.items():
        if worker.rpartition("/")[0] == device and any(_computes(state, a) for a in held):
            return Anomaly.DEVICE_BUSY
    return None


def _computes(state: FleetState, attempt: str) -> bool:
    return state.get(Entity.ATTEMPT, attempt).state == Attempt.DEVICE


def _guard_done(state: FleetState, _move: Move, old: View) -> Anomaly | None:
    return Anomaly.JOB_ENDED if state.get(Entity.JOB, old.job or "").state in JOB_ENDS else None


def _guard_worker(state: FleetState, move: Move, old: View) -> Anomaly | None:
    """A worker that comes back with a new session holds nothing of its former life.

    A new epoch within the session has no front, but the tails of what its predecessor handed off run on: they belong to
    the session, not to the thread.
    """
    if _is_foreign(move, old) and _is_alive(state, old.session):
        return Anomaly.STALE_SESSION
    if move.new in (Lifecycle.STARTING, Lifecycle.ONLINE) and old.state in (Lifecycle.LOST, Lifecycle.STOPPED):
        held = state.held.get(move.entity_id) if _is_foreign(move, old) else state.front(move.entity_id)
        return Anomaly.ATTEMPT_OPEN if held else None
    return None


def _is_alive(state: FleetState, session: str | None) -> bool:
    known = state.get(Entity.SESSION, session or "").state
    return bool(known) and known not in (Lifecycle.LOST, Lifecycle.STOPPED)


def _guard_job(state: FleetState, move: Move, old: View) -> Anomaly | None:
    if move.new == old.state and move.reason not in JOB_NOTES:
        return Anomaly.ILLEGAL_MOVE
    if old.state in JOB_LEASED and _is_foreign(move, old) and not _is_gone(state, old.session):
        return Anomaly.STALE_SESSION
    if move.new in (Job.ASSEMBLING, Job.DONE):
        return Anomaly.PARTITION_UNPROVEN if unproven(state, move.entity_id) else None
    return None


def unproven(state: FleetState, job: str) -> list[int]:
    """The partitions of a job whose newest attempt is open, failed or cancelled.

    The others are done; or their proof came from elsewhere: the newest attempt was skipped or lost, or is not known.
    """
    partitions = int(state.get(Entity.JOB, job).detail.get("partitions", 1))
    return [partition for partition in range(partitions) if not _is_proven(state, job, partition)]


def _is_proven(state: FleetState, job: str, partition: int) -> bool:
    latest = state.latest.get(f"{job}:{partition}", 0)
    current = state.get(Entity.ATTEMPT, attempt_id(job, partition, latest)).state
    return current in ("", Attempt.DONE, Attempt.SKIPPED, Attempt.LOST)


Guard = Callable[[FleetState, Move, View], Anomaly | None]
_ATTEMPT_GUARDS: dict[str, Guard] = {
    Attempt.PENDING: _guard_pending,
    Attempt.SYNTHESIZING: _guard_synthesizing,
    Attempt.CLAIMED: _guard_claimed,
    Attempt.DEVICE_WAIT: _guard_device_wait,
    Attempt.DEVICE: _guard_device,
    Attempt.DONE: _guard_done,
}
_GUARDS: dict[Entity, Guard] = {Entity.ATTEMPT: _guard_attempt, Entity.WORKER: _guard_worker, Entity.JOB: _guard_job}
