"""What people may ask for: the one list of actions, of what each is, and from which state each makes sense.

Engine, web and command line read it here, and the live page is served what its cards offer; `request_command` and
`request_job` (cuzk_web/fleet/sql/commands.sql) have the same words, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from .enums import JOB_ENDS, Admin, Job


class Target(StrEnum):
    """What a command is of, and how its target is named."""

    WORKER = "worker"  # prover/ordinal/sub
    JOB = "job"  # its UUID
    KEY = "key"  # prover:NAME
    PROVER = "prover"  # its name


class Action(StrEnum):
    """Of a command."""

    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    DISABLE = "disable"
    ENABLE = "enable"
    RESTART = "restart"
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    PRIORITY = "priority"  # arguments: priority, 1 low to 4 critical
    DEADLINE = "deadline"  # arguments: deadline_us, microseconds since 1970, or null for none
    RETRY = "retry"
    PRELOAD = "preload"
    EVICT = "evict"
    PIN = "pin"
    UNPIN = "unpin"
    ACCEPT = "accept"


#: what may be asked of each
ACTIONS: Mapping[Target, tuple[Action, ...]] = {
    Target.WORKER: (
        Action.PAUSE, Action.RESUME, Action.DRAIN, Action.DISABLE, Action.ENABLE, Action.RESTART,
    ),
    Target.JOB: (
        Action.CANCEL, Action.HOLD, Action.RELEASE, Action.PRIORITY, Action.DEADLINE, Action.RETRY,
    ),
    Target.KEY: (Action.PRELOAD, Action.EVICT, Action.PIN, Action.UNPIN),
    Target.PROVER: (Action.DRAIN, Action.ACCEPT),
}  # fmt: skip
WORKER_ACTIONS = ACTIONS[Target.WORKER]
JOB_ACTIONS = ACTIONS[Target.JOB]
KEY_ACTIONS = ACTIONS[Target.KEY]
#: action of a worker -> the wish that it asks for; a restart asks for none
WISHES: Mapping[str, Admin] = {
    Action.PAUSE: Admin.PAUSED,
    Action.RESUME: Admin.ENABLED,
    Action.DRAIN: Admin.DRAINING,
    Action.DISABLE: Admin.DISABLED,
    Action.ENABLE: Admin.ENABLED,
}
#: a worker that was disabled is not brought back in passing, by who resumes all that are paused
_FROM: Mapping[str, frozenset[Admin]] = {
    Action.PAUSE: frozenset({Admin.ENABLED, Admin.DRAINING}),
    Action.RESUME: frozenset({Admin.PAUSED, Admin.DRAINING, Admin.QUARANTINED}),
    Action.DRAIN: frozenset({Admin.ENABLED, Admin.PAUSED}),
    Action.DISABLE: frozenset({Admin.ENABLED, Admin.PAUSED, Admin.DRAINING, Admin.QUARANTINED}),
    Action.ENABLE: frozenset({Admin.DISABLED}),
    Action.RESTART: frozenset(Admin),
}
_OPEN = frozenset(state for state in Job if state and state not in JOB_ENDS)
#: a job that is being assembled is proved: to hold it would only withhold its proof
_JOB_FROM: Mapping[str, frozenset[Job]] = {
    Action.CANCEL: _OPEN,
    Action.HOLD: frozenset({Job.QUEUED, Job.LOADING, Job.RUNNING}),
    Action.RELEASE: frozenset({Job.HELD}),
    Action.PRIORITY: _OPEN,
    Action.DEADLINE: _OPEN,
    Action.RETRY: frozenset({Job.FAILED, Job.CANCELLED}),
}


def offered(admin: str) -> tuple[Action, ...]:
    """What may be asked of an online worker whose wish is `admin`."""
    return tuple(action for action in WORKER_ACTIONS if admin in _FROM[action])


def action_refusal(action: str, admin: str) -> str | None:
    """Why an online worker whose wish is `admin` cannot be asked for a worker's action; None when it can."""
    if admin in _FROM[action]:
        return None
    if WISHES.get(action) == admin:
        return f"it is {admin} already"
    return f"it is {admin}; from there one can {' or '.join(offered(admin))} it"


def job_actions(state: str) -> tuple[Action, ...]:
    """What may be asked of a job in `state`."""
    return tuple(action for action in JOB_ACTIONS if state in _JOB_FROM[action])


def job_refusal(action: str, state: str) -> str | None:
    """Why a job in `state` cannot be asked for a job's action; None when it can."""
    return None if state in _JOB_FROM[action] else f"it is {state}"
