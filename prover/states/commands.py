"""What people may ask of a prover: the one list of actions, and from which wish each makes sense.

Engine and web read it here, and the live page is served what its cards offer; `request_command`
(cuzk_web/fleet/sql/commands.sql) has the same words, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from .enums import Admin


class Action(StrEnum):
    """Of a command. All but CANCEL, which is of a job, are of a worker."""

    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    DISABLE = "disable"
    ENABLE = "enable"
    RESTART = "restart"
    CANCEL = "cancel"


WORKER_ACTIONS: tuple[Action, ...] = tuple(action for action in Action if action is not Action.CANCEL)
#: action -> the wish that it asks for; a restart asks for none
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
