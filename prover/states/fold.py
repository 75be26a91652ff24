"""The fold: what was, and one accepted transition, give what is. No guards here; `decide` has them.

Applying a transition twice changes nothing, and the order between different things does not matter: a view is keyed
by its own thing, and what belongs to a worker is derived from the attempts that it holds. Within a session a thing's
transitions are ordered by `seq`. Between sessions (a job is queued by the site, loaded by a prover, queued again) they
are ordered by (`at_us`, `session`), however they arrive; so whoever moves a thing must stamp it later than what it saw.
An overtaken transition still leaves its time and, under what is known already, its details. A job that is noted (its
priority changed, say) stays in its state since it entered it; the note has a time of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .enums import ATTEMPT_ENDS, JOB_ENDS, Entity
from .model import FleetState, View, view_from_json
from .transition import Transition


def apply(state: FleetState, t: Transition) -> FleetState:
    """Bring `state` up to date with `t` (in place, because views are frozen and states are large) and return it."""
    state.heads[t.session] = max(t.seq, state.heads.get(t.session, 0))
    old = state.get(t.entity, t.entity_id)
    ends = _ENDS.get(t.entity, _NO_ENDS)
    if old.state in ends and t.new in ends:
        return state  # terminal is terminal
    view = _overtaken_by(old, t) if old.state in ends or _is_older(old, t) else _moved(old, t)
    state.views[t.entity][t.entity_id] = view
    if t.entity is Entity.ATTEMPT:
        _index(state, t.entity_id, view)
    elif t.entity is Entity.JOB and t.new in ends:
        key = f"{view.detail.get('kind', 'unknown')} {t.new}"
        state.ended[key] = state.ended.get(key, 0) + 1
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
        _index(state, key, view)
    return state


def _is_older(old: View, t: Transition) -> bool:
    """Whether `t` happened no later than what `old` shows."""
    if old.session is None:
        return False
    if old.session == t.session:
        return t.seq <= old.seq
    return (t.at_us, t.session) < (old.moved_us, old.session)


def _entered(t: Transition) -> str:
    """What the time of `t` is kept as."""
    return NOTED if t.entity is Entity.JOB and t.old == t.new else t.new


def _moved(old: View, t: Transition) -> View:
    return View(
        state=t.new, times={**old.times, _entered(t): t.at_us}, detail={**old.detail, **t.detail}, reason=t.reason,
        session=t.session, seq=t.seq,
        job=old.job if t.job is None else t.job,
        partition=old.partition if t.partition is None else t.partition,
        attempt_no=old.attempt_no if t.attempt_no is None else t.attempt_no,
        worker=old.worker if t.worker is None else t.worker,
    )  # fmt: skip


def _overtaken_by(old: View, t: Transition) -> View:
    """`old` with what an older transition still has to say."""
    entered = _entered(t)
    return replace(
        old, times={**old.times, entered: max(t.at_us, old.times.get(entered, 0))}, detail={**t.detail, **old.detail},
        job=t.job if old.job is None else old.job,
        partition=t.partition if old.partition is None else old.partition,
        attempt_no=t.attempt_no if old.attempt_no is None else old.attempt_no,
        worker=t.worker if old.worker is None else old.worker,
    )  # fmt: skip


def _index(state: FleetState, key: str, view: View) -> None:
    cell = f"{view.job}:{view.partition}"
    state.latest[cell] = max(view.attempt_no or 0, state.latest.get(cell, 0))
    if view.worker is not None:
        others = state.held.get(view.worker, frozenset()) - {key}
        state.held[view.worker] = others if view.state in ATTEMPT_ENDS else others | {key}


NOTED = "noted"  # among a job's times: when it was noted last
_NO_ENDS: frozenset[str] = frozenset()
_ENDS: Mapping[Entity, frozenset[str]] = {Entity.ATTEMPT: ATTEMPT_ENDS, Entity.JOB: JOB_ENDS}
