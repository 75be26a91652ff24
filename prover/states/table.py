"""Which moves are legal. Everything that is not listed is refused and counted as an anomaly."""

from __future__ import annotations

from collections.abc import Mapping

from .enums import ATTEMPT_ENDS, JOB_ENDS, Admin, Attempt, Command, Entity, Holding, Job, Lifecycle

Moves = Mapping[str, frozenset[str]]  # the words of the enums, which are strings

_L, _A, _J = Lifecycle, Attempt, Job

LIFECYCLE: Moves = {
    _L.ABSENT: frozenset({_L.STARTING, _L.ONLINE}),
    _L.STARTING: frozenset({_L.ONLINE, _L.STOPPED, _L.LOST}),
    _L.ONLINE: frozenset({_L.STOPPED, _L.LOST}),
    # only a new session (or, within one, a new epoch of a worker) brings these back
    _L.STOPPED: frozenset({_L.STARTING, _L.ONLINE}),
    _L.LOST: frozenset({_L.STARTING, _L.ONLINE}),
}

ADMIN: Moves = {
    old: frozenset(new for new in Admin if new is not old) for old in Admin if old is not Admin.QUARANTINED
} | {Admin.QUARANTINED: frozenset({Admin.ENABLED, Admin.DISABLED})}

HOLDING: Moves = {
    # ready at once: the process loaded it in an earlier session
    Holding.ABSENT: frozenset({Holding.LOADING, Holding.COMPILING, Holding.READY}),
    # loading again: its progress went on; evicted: nobody waits for it any more
    Holding.LOADING: frozenset({Holding.LOADING, Holding.READY, Holding.FAILED, Holding.EVICTED}),
    Holding.COMPILING: frozenset({Holding.READY, Holding.FAILED}),
    Holding.READY: frozenset({Holding.EVICTED, Holding.LOADING, Holding.COMPILING}),
    Holding.FAILED: frozenset({Holding.LOADING, Holding.COMPILING}),
    Holding.EVICTED: frozenset({Holding.LOADING, Holding.COMPILING}),
}

_JOB_MOVES: Moves = {
    _J.ABSENT: frozenset({_J.QUEUED, _J.HELD}),
    _J.QUEUED: frozenset({_J.HELD, _J.LOADING, _J.FAILED, _J.CANCELLED}),
    _J.HELD: frozenset({_J.QUEUED, _J.CANCELLED}),
    # held: somebody wished it; back to queued: its session was lost, or gave it up while draining
    _J.LOADING: frozenset({_J.RUNNING, _J.FAILED, _J.CANCELLED, _J.QUEUED, _J.HELD}),
    _J.RUNNING: frozenset({_J.ASSEMBLING, _J.FAILED, _J.CANCELLED, _J.QUEUED, _J.HELD}),
    _J.ASSEMBLING: frozenset({_J.VERIFYING, _J.FAILED, _J.CANCELLED, _J.QUEUED}),
    _J.VERIFYING: frozenset({_J.DONE, _J.FAILED, _J.CANCELLED, _J.QUEUED}),
    _J.DONE: frozenset(),
    _J.FAILED: frozenset(),
    _J.CANCELLED: frozenset(),
}

#: an open job may be noted: it stays in its state, and `JOB_NOTES` has the reasons
JOB: Moves = {old: (new | {old} if old and old not in JOB_ENDS else new) for old, new in _JOB_MOVES.items()}

_ATTEMPT_FORWARD: dict[str, frozenset[str]] = {
    _A.ABSENT: frozenset({_A.PENDING}),
    _A.PENDING: frozenset({_A.RESERVED, _A.CANCELLED, _A.SKIPPED}),
    # claimed before its synthesis: the monolithic loop, whose worker does both
    _A.RESERVED: frozenset({_A.SYNTHESIZING, _A.CLAIMED, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    _A.SYNTHESIZING: frozenset({_A.READY, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    _A.READY: frozenset({_A.CLAIMED, _A.DEVICE_WAIT, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    _A.CLAIMED: frozenset({_A.SYNTHESIZING, _A.DEVICE_WAIT, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    # skipped: the result arrived from an older attempt while this one waited or ran
    _A.DEVICE_WAIT: frozenset({_A.DEVICE, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    _A.DEVICE: frozenset({_A.FINALIZING, _A.FINISHING, _A.FAILED, _A.SKIPPED}),
    _A.FINALIZING: frozenset({_A.DONE, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
    _A.FINISHING: frozenset({_A.DONE, _A.FAILED, _A.CANCELLED, _A.SKIPPED}),
}
ATTEMPT: Moves = {old: (new | {_A.LOST} if old != _A.ABSENT else new) for old, new in _ATTEMPT_FORWARD.items()} | {
    end: frozenset() for end in ATTEMPT_ENDS
}

COMMAND: Moves = {
    Command.ABSENT: frozenset({Command.PENDING}),
    Command.PENDING: frozenset({Command.TAKEN, Command.DONE, Command.REFUSED}),
    Command.TAKEN: frozenset({Command.DONE, Command.REFUSED}),
    Command.DONE: frozenset(),
    Command.REFUSED: frozenset(),
}

TABLES: Mapping[Entity, Moves] = {
    Entity.SESSION: LIFECYCLE,
    Entity.DEVICE: LIFECYCLE,
    Entity.WORKER: LIFECYCLE,
    Entity.ADMIN: ADMIN,
    Entity.HOLDING: HOLDING,
    Entity.JOB: JOB,
    Entity.ATTEMPT: ATTEMPT,
    Entity.COMMAND: COMMAND,
}


def legal(entity: Entity, old: str, new: str) -> bool:
    """Whether `entity` may move from state `old` to state `new`."""
    return new in TABLES[entity].get(old, frozenset())
