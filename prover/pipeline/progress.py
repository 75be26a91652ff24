"""Whether work goes on: a phase that takes many times its own median stands still, and somebody should be told.

Reads the tracker's transitions and nothing else, so it is no part of what may hang. What it says are facts: which
attempt or job, in which phase, since when, how long such a phase takes otherwise, and the last thing that did happen.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from ..states import JOB_ENDS, Attempt, Entity, Job, JsonObject, Refused, Transition

STUCK_AFTER = 5  # times the median
LEAST_S = 30.0  # nobody is told of less
UNKNOWN_S = 900.0  # where no median is known yet
_SAMPLES = 100  # the newest of a phase
_ENOUGH = 3  # samples that make a median

#: phases in which somebody works; in the others things wait for their turn, which may be long
_WORKING: Mapping[Entity, frozenset[str]] = {
    Entity.ATTEMPT: frozenset({Attempt.SYNTHESIZING, Attempt.DEVICE, Attempt.FINALIZING, Attempt.FINISHING}),
    Entity.JOB: frozenset({Job.LOADING, Job.ASSEMBLING, Job.VERIFYING}),
}
#: a phase that ended so did not take what it takes
_CUT_SHORT = frozenset({Attempt.FAILED, Attempt.CANCELLED, Attempt.SKIPPED, Attempt.LOST, Job.QUEUED})


@dataclass(frozen=True, slots=True)
class Stalled:
    """Something that takes too long. Times in microseconds by the database's clock."""

    entity: Entity
    entity_id: str
    phase: str
    since_us: int
    limit_s: float
    median_s: float | None
    last: JsonObject  # what happened last in this prover: entity, id, new, at_us

    def detail(self) -> JsonObject:
        """The part that the anomaly carries."""
        return {
            "phase": self.phase, "since_us": self.since_us, "limit_s": round(self.limit_s, 3),
            "median_s": None if self.median_s is None else round(self.median_s, 3), "last": dict(self.last),
        }  # fmt: skip


@dataclass(slots=True)
class _Open:
    kind: str
    phase: str
    since_us: int
    told: bool = False


@dataclass(slots=True)
class Progress:
    """A sink of the tracker. Thread-safe; `look` is for one caller, now and then."""

    factor: int = STUCK_AFTER
    least_s: float = LEAST_S
    unknown_s: float = UNKNOWN_S
    _open: dict[tuple[Entity, str], _Open] = field(default_factory=dict)
    _took: dict[tuple[str, str], deque[float]] = field(default_factory=dict)  # (kind, phase) -> seconds
    _kinds: dict[str, str] = field(default_factory=dict)  # job -> kind
    _last: dict[str, object] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sink(self, made: Transition | Refused) -> None:
        """Takes what the tracker says."""
        if isinstance(made, Transition) and made.entity in _WORKING:
            with self._lock:
                self._take(made)

    def look(self, now_us: int) -> list[Stalled]:
        """What stands still now and was not told before."""
        with self._lock:
            found = [self._stalled(*each) for each in self._open.items() if not each[1].told]
            stalled = [one for one in found if now_us - one.since_us > one.limit_s * 1e6]
            for one in stalled:
                self._open[one.entity, one.entity_id].told = True
            return stalled

    def stalled(self) -> int:
        """How many things that were told of stand still yet; a gauge."""
        with self._lock:
            return sum(each.told for each in self._open.values())

    def last(self) -> JsonObject:
        """The last thing that happened."""
        with self._lock:
            return dict(self._last)

    def _take(self, t: Transition) -> None:
        self._last = {"entity": t.entity.value, "id": t.entity_id, "new": t.new, "at_us": t.at_us}
        if t.entity is Entity.JOB:
            self._know_kind(t)
        key = (t.entity, t.entity_id)
        before = self._open.pop(key, None)
        if before is not None and t.new not in _CUT_SHORT:
            took = self._took.setdefault((before.kind, before.phase), deque(maxlen=_SAMPLES))
            took.append((t.at_us - before.since_us) / 1e6)
        if t.new in _WORKING[t.entity]:
            self._open[key] = _Open(self._kinds.get(t.job or "", ""), t.new, t.at_us)

    def _know_kind(self, t: Transition) -> None:
        """Each kind and size of sector has medians of its own."""
        if t.new == Job.LOADING:
            self._kinds[t.entity_id] = f"{t.detail.get('kind')} {t.detail.get('sector_size')}"
        elif t.new in JOB_ENDS or t.new == Job.QUEUED:
            self._kinds.pop(t.entity_id, None)

    def _stalled(self, key: tuple[Entity, str], one: _Open) -> Stalled:
        took = self._took.get((one.kind, one.phase), ())
        middle = median(took) if len(took) >= _ENOUGH else None
        limit = self.unknown_s if middle is None else max(self.least_s, self.factor * middle)
        return Stalled(*key, one.phase, one.since_us, limit, middle, self._last)
