"""What is known of the fleet at one moment: frozen views in dictionaries, and what is derived from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .enums import ATTEMPT_ENDS, FRONT, JOB_ENDS, Activity, Admin, Attempt, Entity, Lifecycle
from .transition import JsonObject


@dataclass(frozen=True, slots=True)
class View:
    """State of one thing: when it entered each state (microseconds, last time it did), and what was said with it."""

    state: str = ""
    times: Mapping[str, int] = field(default_factory=dict)
    detail: JsonObject = field(default_factory=dict)  # merged over all transitions
    reason: str | None = None
    session: str | None = None  # the session of the last transition
    seq: int = 0  # and its number there
    job: str | None = None
    partition: int | None = None
    attempt_no: int | None = None
    worker: str | None = None

    @property
    def since_us(self) -> int:
        """When the present state was entered."""
        return self.times.get(self.state, 0)

    @property
    def moved_us(self) -> int:
        """When the last transition was, whether or not it led to another state."""
        return max(self.times.values(), default=0)


@dataclass(slots=True)
class FleetState:
    """Everything that a page shows. Built by `fold.apply` alone; copies are shallow because views are frozen."""

    views: dict[Entity, dict[str, View]] = field(default_factory=lambda: {entity: {} for entity in Entity})
    heads: dict[str, int] = field(default_factory=dict)  # session -> highest seq applied
    held: dict[str, frozenset[str]] = field(default_factory=dict)  # worker -> its attempts that have not ended
    latest: dict[str, int] = field(default_factory=dict)  # "job:partition" -> highest attempt number
    ended: dict[str, int] = field(default_factory=dict)  # "kind state" -> jobs that ended so

    def copy(self) -> FleetState:
        """An independent state with the same contents."""
        return FleetState(
            {entity: dict(views) for entity, views in self.views.items()},
            dict(self.heads), dict(self.held), dict(self.latest), dict(self.ended),
        )  # fmt: skip

    def get(self, entity: Entity, entity_id: str) -> View:
        """The view of a thing; an empty one when it was never heard of."""
        return self.views[entity].get(entity_id, _EMPTY)

    # -- what is derived, never stored ---------------------------------------------------------------------------

    def front(self, worker: str) -> str | None:
        """The attempt that the worker is doing now: at most one when the guards held."""
        fronts = [a for a in self.held.get(worker, ()) if self.get(Entity.ATTEMPT, a).state in FRONT]
        return max(fronts, key=lambda a: (self.get(Entity.ATTEMPT, a).times.get(Attempt.CLAIMED, 0), a), default=None)

    def finalizing(self, worker: str) -> tuple[str, ...]:
        """The attempts whose CPU tail runs while the worker is free, oldest first."""
        tails = [a for a in self.held.get(worker, ()) if self.get(Entity.ATTEMPT, a).state == Attempt.FINALIZING]
        return tuple(sorted(tails, key=lambda a: (self.get(Entity.ATTEMPT, a).since_us, a)))

    def busy_since_us(self, worker: str) -> int | None:
        """When the front was claimed: it never moves while the front is unchanged."""
        front = self.front(worker)
        return None if front is None else self.get(Entity.ATTEMPT, front).times.get(Attempt.CLAIMED)

    def admin(self, worker: str) -> str:
        """The administrative state; enabled until somebody says otherwise."""
        return self.get(Entity.ADMIN, worker).state or Admin.ENABLED

    def activity(self, worker: str) -> Activity:
        """What the card reads, by precedence: lost, stopped, proving, finalizing, the admin's wish, idle."""
        lifecycle = self.get(Entity.WORKER, worker).state
        if lifecycle == Lifecycle.LOST:
            return Activity.LOST
        if lifecycle != Lifecycle.ONLINE:
            return Activity.STOPPED
        if self.front(worker) is not None:
            return Activity.PROVING
        if self.finalizing(worker):
            return Activity.FINALIZING
        return _ADMIN_ACTIVITY.get(self.admin(worker), Activity.IDLE)

    def attempts(self, job: str) -> Iterator[tuple[str, View]]:
        """All attempts of a job."""
        return ((key, view) for key, view in self.views[Entity.ATTEMPT].items() if view.job == job)

    def gauges(self) -> dict[str, int]:
        """Counts of what goes on now; all are 0 when nothing does."""
        states = [view.state for view in self.views[Entity.ATTEMPT].values()]
        jobs = [view.state for view in self.views[Entity.JOB].values()]
        return {
            "synth_active": states.count(Attempt.SYNTHESIZING),
            "gpu_active": sum(self.front(worker) is not None for worker in self.held),
            "finalizing": states.count(Attempt.FINALIZING),
            "queue_depth": jobs.count("queued"),
            "open_jobs": sum(state not in JOB_ENDS for state in jobs),
            "open_attempts": sum(state not in ATTEMPT_ENDS for state in states),
        }

    def to_json(self) -> dict[str, Any]:
        """The snapshot that a page starts from; the browser's fold holds the same shape."""
        return {
            "views": {e.value: {k: view_to_json(v) for k, v in vs.items()} for e, vs in self.views.items()},
            "heads": dict(self.heads),
            "ended": dict(self.ended),
        }


_EMPTY = View()
_ADMIN_ACTIVITY: dict[str, Activity] = {
    Admin.QUARANTINED: Activity.QUARANTINED,
    Admin.DISABLED: Activity.DISABLED,
    Admin.PAUSED: Activity.PAUSED,
    Admin.DRAINING: Activity.DRAINED,
}


def view_to_json(view: View) -> dict[str, Any]:
    """A view as a JSON object."""
    return {
        "state": view.state, "times": dict(view.times), "detail": dict(view.detail), "reason": view.reason,
        "session": view.session, "seq": view.seq, "job": view.job, "partition": view.partition,
        "attempt_no": view.attempt_no, "worker": view.worker,
    }  # fmt: skip


def view_from_json(value: Mapping[str, Any]) -> View:
    """Inverse of `view_to_json`."""
    return replace(View(), **value)
