"""Whether the page is right: three comparisons, made again and again, of what is kept twice.

* The page: a snapshot of the state tables, brought to where the hub's fold is, equals the fold.
* The log: what the fold says of a thing is what the transition that it names says; and a job's transitions, folded
  anew, give the job and its attempts.
* The gauges: what a prover counted at a moment is what its attempts were doing then.

What differs is a finding: pages show an alarm, an anomaly row is written, and the hub starts from a new snapshot. A
finding of the gauges must stand in several rounds, for a prover counts and stamps in two steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from prover.states import (
    ATTEMPT_ENDS,
    FRONT,
    JOB_ENDS,
    Attempt,
    Command,
    Entity,
    FleetState,
    Transition,
    View,
    apply,
    fold,
)

from .retention import KEEP_JOBS, forget

DAY_US: Final = 24 * 3600 * 1_000_000
MOST_FINDINGS: Final = 20  # of a comparison: what is wrong in general is seen by some
ROUNDS: Final = 3  # in which a gauge must differ


class Finding(StrEnum):
    """Codes of anomalies that no prover reports."""

    PAGE = "audit_page"
    LOG = "audit_log"
    GAUGES = "audit_gauges"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two things that should be equal and are not."""

    code: Finding
    entity: str
    entity_id: str
    ours: str
    theirs: str

    @property
    def text(self) -> str:
        """One sentence."""
        words = {
            Finding.PAGE: "the page has {ours}, the database {theirs}",
            Finding.LOG: "the page has {ours}, the event log {theirs}",
            Finding.GAUGES: "its attempts give {ours}, its gauge {theirs}",
        }
        return f"{self.entity} {self.entity_id}: " + words[self.code].format(ours=self.ours, theirs=self.theirs)


def page_differences(ours: FleetState, theirs: FleetState, rows: Iterable[str], now_us: int) -> list[Difference]:
    """The hub's fold against a snapshot and the rows (JSON) that followed it. Both states are used up."""
    for row in rows:
        apply(theirs, Transition.from_row(json.loads(row)))
    forget(ours, now_us)
    forget(theirs, now_us)
    found = [
        _different(Finding.PAGE, entity, key, a, b)
        for entity in Entity
        for key, a, b in _pairs(ours.views[entity], theirs.views[entity])
        if not _same(entity, key, a, b) and not (None in (a, b) and _may_be_forgotten(entity, a or b))
    ]
    for key, a, b in _pairs(ours.ended, theirs.ended):
        if a != b:
            found.append(Difference(Finding.PAGE, "counter", key, str(a or 0), str(b or 0)))
    return found[:MOST_FINDINGS]


def pointers(state: FleetState, now_us: int) -> dict[tuple[str, int], tuple[Entity, str, View]]:
    """(session, seq) of the last transition of each thing that moved within a day: older ones may have been removed."""
    return {
        (view.session, view.seq): (entity, key, view)
        for entity in Entity
        for key, view in state.views[entity].items()
        if view.session is not None and max(view.times.values(), default=0) > now_us - DAY_US
    }


def log_differences(
    wanted: Mapping[tuple[str, int], tuple[Entity, str, View]], found: Iterable[Transition]
) -> list[Difference]:
    """Things against the transitions that they name."""
    log = {(t.session, t.seq): t for t in found}
    different = []
    for place, (entity, key, view) in wanted.items():
        t = log.get(place)
        if t is None or (t.entity, t.entity_id, t.new) != (entity, key, view.state) or t.at_us > view.since_us:
            said = "nothing" if t is None else f"{t.entity} {t.entity_id} {t.new or 'nothing'}"
            different.append(Difference(Finding.LOG, entity.value, key, _said(view), said))
    return different[:MOST_FINDINGS]


def job_differences(state: FleetState, job: str, log: Sequence[Transition]) -> list[Difference]:
    """A job and its attempts against a fold of the job's own transitions, as far as the state has come."""
    again = fold(sorted((t for t in log if t.seq <= state.heads.get(t.session, 0)), key=lambda t: (t.at_us, t.seq)))
    ours = {(Entity.JOB, job): state.get(Entity.JOB, job)} | {(Entity.ATTEMPT, k): v for k, v in state.attempts(job)}
    return [
        _different(Finding.LOG, entity, key, view, again.get(entity, key))
        for (entity, key), view in ours.items()
        if not _same(entity, key, view, again.get(entity, key))
    ][:MOST_FINDINGS]


def gauge_differences(state: FleetState, session: str, at_us: int, gauges: Mapping[str, Any]) -> list[Difference]:
    """A prover's gauges of a moment against its attempts at that moment."""
    if _forgot(state, at_us):
        return []
    counted = counts(state, session, at_us)
    return [
        Difference(Finding.GAUGES, "session", session, f"{name} {number}", str(gauges[name]))
        for name, number in counted.items()
        if name in gauges and gauges[name] != number
    ]


def counts(state: FleetState, session: str, at_us: int) -> dict[str, int]:
    """What the attempts of a session were doing at a moment."""
    now: Counter[str] = Counter()
    busy: set[str] = set()
    for view in state.views[Entity.ATTEMPT].values():
        if view.session == session and (was := state_at(view, at_us)) is not None:
            now[was] += 1
            if was in FRONT and view.worker is not None and view.times.get(Attempt.CLAIMED, at_us + 1) <= at_us:
                busy.add(view.worker)
    return {
        "synth_active": now[Attempt.SYNTHESIZING],
        "gpu_active": len(busy),
        "finalizing": now[Attempt.FINALIZING],
        "open_attempts": sum(n for was, n in now.items() if was not in ATTEMPT_ENDS),
    }


def state_at(view: View, at_us: int) -> str | None:
    """The state that a thing was in at a moment; None before its first."""
    entered = [(us, number, state) for number, (state, us) in enumerate(view.times.items()) if us <= at_us]
    return max(entered)[2] if entered else None


def _forgot(state: FleetState, at_us: int) -> bool:
    """Whether jobs may have left the state that were open at a moment."""
    ends = [view.since_us for view in state.views[Entity.JOB].values() if view.state in JOB_ENDS]
    return len(ends) >= KEEP_JOBS and min(ends) > at_us


def _pairs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    return ((key, ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys())


def _same(entity: Entity, key: str, ours: View | None, theirs: View | None) -> bool:
    """Whether two views of a thing are equal. That a worker is its own, and a job, may be left unsaid."""
    if ours == theirs:
        return True
    if ours is None or theirs is None:
        return False
    return _named(entity, key, ours) == _named(entity, key, theirs)


def _named(entity: Entity, key: str, view: View) -> View:
    if entity is Entity.JOB:
        return replace(view, job=key)
    return replace(view, worker=key) if entity in (Entity.WORKER, Entity.ADMIN) else view


def _different(code: Finding, entity: Entity, key: str, ours: View | None, theirs: View | None) -> Difference:
    """With the names of the fields that differ where state and number do not."""
    said = [_said(ours), _said(theirs)]
    if ours is not None and theirs is not None and said[0] == said[1]:
        names = [f.name for f in fields(View) if getattr(ours, f.name) != getattr(theirs, f.name)]
        said = [f"{text} with other {', '.join(names)}" for text in said]
    return Difference(code, entity.value, key, *said)


def _may_be_forgotten(entity: Entity, view: View | None) -> bool:
    """What has ended leaves the page and the snapshot by rules that need not meet at the same moment."""
    ends: dict[Entity, frozenset[str]] = {
        Entity.JOB: frozenset(JOB_ENDS), Entity.ATTEMPT: frozenset(ATTEMPT_ENDS),
        Entity.COMMAND: frozenset({Command.DONE, Command.REFUSED}), Entity.SESSION: frozenset({"stopped", "lost"}),
        Entity.DEVICE: frozenset({"stopped", "lost"}), Entity.WORKER: frozenset({"stopped", "lost"}),
        Entity.HOLDING: frozenset({"evicted", "failed"}), Entity.ADMIN: frozenset(),
    }  # fmt: skip
    return view is not None and view.state in ends[entity]


def _said(view: View | None) -> str:
    return "nothing" if view is None or not view.state else f"{view.state} (seq {view.seq})"
