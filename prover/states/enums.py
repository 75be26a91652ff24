"""The words of the model: what there is, and the states each thing can be in."""

from __future__ import annotations

from enum import StrEnum


class Entity(StrEnum):
    """What a transition speaks of."""

    SESSION = "session"
    DEVICE = "device"
    WORKER = "worker"
    ADMIN = "admin"  # a worker's administrative state; its entity_id is the worker's
    HOLDING = "holding"  # a key or a compiled program that a device or the host holds
    JOB = "job"
    ATTEMPT = "attempt"
    COMMAND = "command"


class Lifecycle(StrEnum):
    """Of a session, a device and a worker."""

    ABSENT = ""
    STARTING = "starting"
    ONLINE = "online"
    STOPPED = "stopped"
    LOST = "lost"


class Admin(StrEnum):
    """What people (or, for quarantine, the system) want of a worker."""

    ENABLED = "enabled"
    PAUSED = "paused"
    DRAINING = "draining"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"


class Holding(StrEnum):
    """Of a key or a compiled program; loading and compiling are phases that a page shows."""

    ABSENT = ""
    LOADING = "loading"
    COMPILING = "compiling"
    READY = "ready"
    FAILED = "failed"
    EVICTED = "evicted"


class Job(StrEnum):
    """Of a job."""

    ABSENT = ""
    QUEUED = "queued"
    HELD = "held"
    LOADING = "loading"
    RUNNING = "running"
    ASSEMBLING = "assembling"
    VERIFYING = "verifying"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Attempt(StrEnum):
    """Of one attempt at one partition of one job."""

    ABSENT = ""
    PENDING = "pending"
    RESERVED = "reserved"
    SYNTHESIZING = "synthesizing"
    READY = "ready"
    CLAIMED = "claimed"
    DEVICE_WAIT = "device_wait"
    DEVICE = "device"
    FINALIZING = "finalizing"  # split: the worker is free, the CPU tail runs
    FINISHING = "finishing"  # synchronous: the worker waits for the CPU tail
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOST = "lost"


class Command(StrEnum):
    """Of an administrative command."""

    ABSENT = ""
    PENDING = "pending"
    TAKEN = "taken"
    DONE = "done"
    REFUSED = "refused"


class Anomaly(StrEnum):
    """Why an event was refused. Counting them shows that the guards work."""

    DUPLICATE_END = "dup_end"
    END_BEFORE_START = "end_before_start"
    ILLEGAL_MOVE = "illegal_move"
    STALE_SESSION = "stale_session"
    UNKNOWN_WORKER = "unknown_worker"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    UNKNOWN_JOB = "unknown_job"
    WORKER_BUSY = "worker_busy"
    WORKER_NOT_AVAILABLE = "worker_not_available"
    DEVICE_BUSY = "device_busy"
    ATTEMPT_OPEN = "attempt_open"
    RESULT_EXISTS = "result_exists"
    PARTITION_UNPROVEN = "partition_unproven"
    JOB_ENDED = "job_ended"


class Activity(StrEnum):
    """What a worker card reads; derived from the attempts that the worker holds, never stored."""

    LOST = "lost"
    STOPPED = "stopped"
    PROVING = "proving"
    FINALIZING = "finalizing"
    QUARANTINED = "quarantined"
    DISABLED = "disabled"
    PAUSED = "paused"
    DRAINED = "drained"
    IDLE = "idle"


ATTEMPT_ENDS = frozenset({Attempt.DONE, Attempt.FAILED, Attempt.CANCELLED, Attempt.SKIPPED, Attempt.LOST})
JOB_ENDS = frozenset({Job.DONE, Job.FAILED, Job.CANCELLED})
#: the states in which an attempt that names a worker is that worker's front: the one thing the worker is doing now. In
#: the pipeline an attempt gets its worker when it is claimed; in the monolithic loop who claimed it synthesises it too.
FRONT = frozenset(
    {Attempt.CLAIMED, Attempt.SYNTHESIZING, Attempt.READY, Attempt.DEVICE_WAIT, Attempt.DEVICE, Attempt.FINISHING}
)
#: the states of a job that one session holds
JOB_LEASED = frozenset({Job.LOADING, Job.RUNNING, Job.ASSEMBLING, Job.VERIFYING})
#: reasons of a transition that leaves a job in its state and changes what is said of it (its detail)
JOB_NOTES = frozenset({"priority", "deadline", "deadline_missed", "memory"})
