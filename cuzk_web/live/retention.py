"""What leaves the page again, so that a hub's memory stays flat however many jobs pass through it.

The history has everything; the page keeps what is open, the last jobs that ended, and of each prover its newest
session. The browser forgets by the same rules (static/js/retention.js).
"""

from __future__ import annotations

from typing import Final

from prover.states import ATTEMPT_ENDS, JOB_ENDS, Entity, FleetState, View
from prover.states import Command as CommandState

from .rows import SITE

KEEP_JOBS: Final = 32  # ended jobs
KEEP_COMMANDS_US: Final = 10 * 60 * 1_000_000  # after their answer
KEEP_SESSIONS_US: Final = 24 * 3600 * 1_000_000  # after their end, when no newer one of the prover came


def forget(state: FleetState, now_us: int) -> FleetState:
    """Drop from `state` (in place) what the page no longer shows at `now_us`, the database's time."""
    _forget_jobs(state)
    _forget_commands(state, now_us - KEEP_COMMANDS_US)
    _forget_sessions(state, now_us - KEEP_SESSIONS_US)
    return state


def _forget_jobs(state: FleetState) -> None:
    attempts = state.views[Entity.ATTEMPT]
    busy = {view.job for view in attempts.values() if view.state not in ATTEMPT_ENDS}
    jobs = state.views[Entity.JOB]
    ended = sorted((view.since_us, job) for job, view in jobs.items() if view.state in JOB_ENDS)
    for _, job in ended[:-KEEP_JOBS]:
        if job not in busy:
            del jobs[job]
    for attempt in [key for key, view in attempts.items() if view.job not in jobs and view.job not in busy]:
        view = attempts.pop(attempt)
        state.latest.pop(f"{view.job}:{view.partition}", None)


def _forget_commands(state: FleetState, before_us: int) -> None:
    commands = state.views[Entity.COMMAND]
    answered = (CommandState.DONE, CommandState.REFUSED)
    for key in [k for k, view in commands.items() if view.state in answered and view.since_us < before_us]:
        del commands[key]


def _forget_sessions(state: FleetState, before_us: int) -> None:
    newest = newest_sessions(state)
    sessions = state.views[Entity.SESSION]
    gone = [k for k in sessions if k not in newest.values() or _ended_before(sessions[k], before_us)]
    for key in gone:
        del sessions[key]
    for key in [k for k in state.heads if k != SITE and k not in sessions]:
        del state.heads[key]
    starts = {prover: min(sessions[s].times.values()) for prover, s in newest.items() if s in sessions}
    for entity in (Entity.DEVICE, Entity.WORKER, Entity.HOLDING):
        views = state.views[entity]
        for key in [k for k, view in views.items() if not _current(view, starts.get(prover_of(entity, k)))]:
            del views[key]
    for key in [k for k in state.views[Entity.ADMIN] if k not in state.views[Entity.WORKER]]:
        del state.views[Entity.ADMIN][key]


def newest_sessions(state: FleetState) -> dict[str, str]:
    """prover -> its session that started last."""
    newest: dict[str, tuple[int, str]] = {}
    for key, view in state.views[Entity.SESSION].items():
        if key != SITE:
            prover = str(view.detail.get("prover", key))
            newest[prover] = max(newest.get(prover, (0, "")), (min(view.times.values()), key))
    return {prover: key for prover, (_, key) in newest.items()}


def prover_of(entity: Entity, entity_id: str) -> str:
    """The prover that a device, a worker (PROVER/..) or a holding (PROVER:..) belongs to."""
    if entity is Entity.HOLDING:
        return entity_id.partition(":")[0]
    return entity_id.rsplit("/", 1 if entity is Entity.DEVICE else 2)[0]


def _ended_before(view: View, before_us: int) -> bool:
    return view.state in ("stopped", "lost") and view.since_us < before_us


def _current(view: View, start_us: int | None) -> bool:
    """Whether a thing has been heard of since its prover's session started."""
    return start_us is not None and view.since_us >= start_us
