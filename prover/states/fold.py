"""The fold: what was, and one accepted transition, give what is. No guards here; `decide` has them.

Applying a transition twice changes nothing, and the order between different attempts does not matter: a view is
keyed by its own thing, and what belongs to a worker is derived from the attempts that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .enums import ATTEMPT_ENDS, FRONT, JOB_ENDS, Attempt, Entity, Job
from .model import FleetState, View, view_from_json
from .transition import Transition


def apply(state: FleetState, t: Transition) -> FleetState:
    """Bring `state` up to date with `t` (in place, because views are frozen and states are large) and return it."""
    state.heads[t.session] = max(t.seq, state.heads.get(t.session, 0))
    old = state.get(t.entity, t.entity_id)
    if _already_applied(old, t):
        return state
    state.views[t.entity][t.entity_id] = _moved(old, t)
    if t.entity is Entity.ATTEMPT:
        _hold(state, t)
    elif t.entity is Entity.JOB:
        _count(state, t, old)
    return state


def fold(transitions: Iterable[Transition], state: FleetState | None = None) -> FleetState:
    """Apply all transitions, in order, to `state` (empty when None)."""
    state = FleetState() if state is None else state
    for t in transitions:
        apply(state, t)
    return state


def from_json(value: Mapping[str, Any]) -> FleetState:
    """The state of a snapshot made by `FleetState.to_json`; what is derived is derived again."""
    state = FleetState(heads=dict(value["heads"]), ended=dict(value["ended"]))
    for entity in Entity:
        state.views[entity] = {k: view_from_json(v) for k, v in value["views"].get(entity.value, {}).items()}
    for key, view in state.views[Entity.ATTEMPT].items():
        _index(state, key, view.state, view.worker, f"{view.job}:{view.partition}", view.attempt_no)
    return state


def _already_applied(old: View, t: Transition) -> bool:
    """Seen before, or overtaken: within a session by number, and an end is never left."""
    if old.session == t.session and t.seq <= old.seq:
        return True
    if t.entity is Entity.ATTEMPT:
        return old.state in ATTEMPT_ENDS
    return t.entity is Entity.JOB and old.state in JOB_ENDS


def _moved(old: View, t: Transition) -> View:
    return View(
        state=t.new, times={**old.times, t.new: t.at_us}, detail={**old.detail, **t.detail}, reason=t.reason,
        session=t.session, seq=t.seq,
        job=old.job if t.job is None else t.job,
        partition=old.partition if t.partition is None else t.partition,
        attempt_no=old.attempt_no if t.attempt_no is None else t.attempt_no,
        worker=old.worker if t.worker is None else t.worker,
    )  # fmt: skip


def _hold(state: FleetState, t: Transition) -> None:
    view = state.get(Entity.ATTEMPT, t.entity_id)
    _index(state, t.entity_id, t.new, view.worker, f"{view.job}:{view.partition}", view.attempt_no)


def _index(state: FleetState, key: str, new: str, worker: str | None, cell: str, attempt_no: int | None) -> None:
    state.latest[cell] = max(attempt_no or 0, state.latest.get(cell, 0))
    if worker is None:
        return
    others = state.held.get(worker, frozenset()) - {key}
    state.held[worker] = others | {key} if new in FRONT or new == Attempt.FINALIZING else others


def _count(state: FleetState, t: Transition, old: View) -> None:
    if t.new in (Job.DONE, Job.FAILED, Job.CANCELLED):
        key = f"{old.detail.get('kind', 'unknown')} {t.new}"
        state.ended[key] = state.ended.get(key, 0) + 1
