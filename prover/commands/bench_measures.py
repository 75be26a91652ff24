"""What a load's run was like, from the recorded times of its jobs and attempts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

EDGE_US = 250_000  # a look that is nearer to a change than that may have missed it: the log travels
_DEVICE_ENDS = ("finalizing", "finishing", "done", "failed", "cancelled", "lost")


@dataclass(frozen=True, slots=True)
class JobTimes:
    """A job of the run; times in microseconds of the database's clock."""

    kind: str
    state: str
    submitted_us: int
    started_us: int | None
    ended_us: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """Half open: from a start to an end."""

    start_us: int
    end_us: int

    def has(self, at_us: int) -> bool:
        return self.start_us <= at_us < self.end_us

    def is_edge(self, at_us: int) -> bool:
        return min(abs(at_us - self.start_us), abs(at_us - self.end_us)) < EDGE_US


@dataclass(slots=True)
class Attempts:
    """Where the run's partitions were proved: by worker from claim to hand-off, by device while it computed."""

    fronts: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    phases: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def add(self, worker: str, times: Mapping[str, int]) -> None:
        """One attempt. One that has not left its worker counts to no end."""
        start = min(times[state] for state in ("claimed", "device_wait", "device") if state in times)
        ends = [times[state] for state in _DEVICE_ENDS if state in times]
        left = [times[state] for state in ("finalizing", "done", "failed", "cancelled", "lost") if state in times]
        if left:
            self.fronts[worker].append(Span(start, min(left)))
        if ends and "device" in times:
            self.phases[worker.rpartition("/")[0]].append(Span(times["device"], min(ends)))


@dataclass(frozen=True, slots=True)
class Look:
    """Which workers a page would have shown as proving, at a moment."""

    at_us: int
    proving: frozenset[str]
    workers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of some values, in their unit; all 0 where there are none."""

    p50: float
    p95: float
    p99: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles:
        found = sorted(values)
        if not found:
            return cls(0, 0, 0, 0)
        p50, p95, p99 = (found[min(len(found) - 1, int(share * len(found)))] for share in (0.5, 0.95, 0.99))
        return cls(p50, p95, p99, len(found))


@dataclass(frozen=True, slots=True)
class Gaps:
    """When a device did nothing between its first and its last device phase."""

    device: str
    busy: float  # share of that time
    count: int
    longest_s: float


@dataclass(frozen=True, slots=True)
class Truth:
    """Looks at workers against what was recorded: idle that was shown while one worked, and the other way round."""

    looks: int
    false_idle: int
    false_busy: int


def latencies(jobs: Sequence[JobTimes]) -> dict[str, Percentiles]:
    """Seconds from submission to the end, of jobs that are done, by kind."""
    kinds = sorted({job.kind for job in jobs})
    return {
        kind: Percentiles.of((job.ended_us - job.submitted_us) / 1e6 for job in jobs
                             if job.kind == kind and job.state == "done" and job.ended_us is not None)
        for kind in kinds
    }  # fmt: skip


def queue_waits(jobs: Sequence[JobTimes]) -> dict[str, Percentiles]:
    """Seconds from submission until a prover took it up, by kind."""
    kinds = sorted({job.kind for job in jobs})
    return {
        kind: Percentiles.of((job.started_us - job.submitted_us) / 1e6 for job in jobs
                             if job.kind == kind and job.started_us is not None)
        for kind in kinds
    }  # fmt: skip


def gaps(attempts: Attempts) -> list[Gaps]:
    """Of each device."""
    return [_gaps_of(device, sorted(spans, key=lambda s: s.start_us)) for device, spans in attempts.phases.items()]


def _gaps_of(device: str, spans: Sequence[Span]) -> Gaps:
    idle, end = [], spans[0].end_us
    for span in spans[1:]:
        if span.start_us > end:
            idle.append(span.start_us - end)
        end = max(end, span.end_us)
    window = end - spans[0].start_us
    return Gaps(device, 1 - sum(idle) / window if window else 1.0, len(idle), max(idle, default=0) / 1e6)


def truth(looks: Sequence[Look], attempts: Attempts) -> Truth:
    """What was shown against what was recorded; looks near to a change do not count."""
    counted = idle = busy = 0
    for look in looks:
        for worker in look.workers:
            spans = attempts.fronts.get(worker, [])
            if any(span.is_edge(look.at_us) for span in spans):
                continue
            worked, shown = any(span.has(look.at_us) for span in spans), worker in look.proving
            counted, idle, busy = counted + 1, idle + (worked and not shown), busy + (shown and not worked)
    return Truth(counted, idle, busy)


def bars(attempts: Attempts) -> list[tuple[str, list[Span]]]:
    """The device phases of each device, for a drawing."""
    return sorted((device, sorted(spans, key=lambda s: s.start_us)) for device, spans in attempts.phases.items())


def as_json(value: Any) -> Any:
    """Data classes as objects."""
    from dataclasses import asdict, is_dataclass

    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
