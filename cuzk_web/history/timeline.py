"""What an attempt's recorded times say: its phases, and where a job's time went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cuzk_web import formats
from cuzk_web.fleet.models import Attempt, Job
from prover.states import ATTEMPT_ENDS
from prover.states import Attempt as State

#: the bars of the waterfall, in order: name, the state in which it starts
PHASES = (
    ("queue", State.PENDING),
    ("memory", State.RESERVED),
    ("synth", State.SYNTHESIZING),
    ("ready", State.READY),
    ("prep", State.CLAIMED),
    ("wait", State.DEVICE_WAIT),
    ("device", State.DEVICE),
    ("finalize", State.FINALIZING),
    ("finish", State.FINISHING),
)
PHASE_NAMES = tuple(name for name, _ in PHASES)
_NAME_OF: dict[str, str] = {state.value: name for name, state in PHASES}


@dataclass(frozen=True)
class Phase:
    """One phase of an attempt; `ms` is None while it lasts."""

    name: str
    start_us: int
    ms: float | None


@dataclass(frozen=True)
class AttemptRow:
    """An attempt as the table shows it."""

    attempt: Attempt
    phases: Mapping[str, Phase]
    total_ms: float | None

    @property
    def cells(self) -> list[Phase | None]:
        """A phase, or None, for each of PHASE_NAMES."""
        return [self.phases.get(name) for name in PHASE_NAMES]


@dataclass(frozen=True)
class Timing:
    """One phase summed over all attempts, beside the wall time of the job."""

    name: str
    total_ms: float
    share: float | None


def phases(times: Mapping[str, Any]) -> dict[str, Phase]:
    """The phases by name. Each ends when the next recorded state begins; the last of an open attempt lasts."""
    moments = sorted((int(us), state) for state, us in times.items())
    found = {}
    for index, (start, state) in enumerate(moments):
        if (name := _NAME_OF.get(state)) is not None:
            end = moments[index + 1][0] if index + 1 < len(moments) else None
            found[name] = Phase(name, start, None if end is None else (end - start) / 1000)
    return found


def row(attempt: Attempt) -> AttemptRow:
    """An attempt with its phases; the total is None while it is open."""
    times = [int(us) for us in attempt.times.values()]
    ended = attempt.state in {end.value for end in ATTEMPT_ENDS}
    return AttemptRow(attempt, phases(attempt.times), (max(times) - min(times)) / 1000 if times and ended else None)


def timings(rows: Iterable[AttemptRow], wall_ms: float | None) -> list[Timing]:
    """Each phase's sum over all attempts. Where partitions overlap, the sums exceed the wall time."""
    sums = dict.fromkeys(PHASE_NAMES, 0.0)
    for line in rows:
        for phase in line.phases.values():
            sums[phase.name] += phase.ms or 0.0
    return [Timing(name, ms, ms / wall_ms if wall_ms else None) for name, ms in sums.items() if ms]


def wall_ms(start: datetime | None, end: datetime | None) -> float | None:
    """Milliseconds between two moments, None when one is not known."""
    return None if start is None or end is None else (end - start).total_seconds() * 1000


def views(job: Job, rows: Iterable[AttemptRow]) -> dict[str, Any]:
    """The job and its attempts in the shape of `FleetState.to_json`, so that the live page's waterfall draws them."""
    attempts = {line.attempt.id: attempt_view(line.attempt) for line in rows}
    detail = {
        "request_id": job.request_id, "kind": job.kind, "number": job.number, "partitions": job.partitions,
        "partition_index": job.partition_index, "priority": job.priority, "error": job.error_message,
    }  # fmt: skip
    times = job.times or {"queued": formats.to_us(job.submitted_at)}
    whole = view(job.state, times, detail, job.error_code, str(job.session_id or "") or None, str(job.id))
    return {"views": {"job": {str(job.id): whole}, "attempt": attempts}, "heads": {}, "ended": {}}


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    """An attempt in that shape."""
    found = view(
        attempt.state, attempt.times, attempt.detail, attempt.reason, str(attempt.session_id), str(attempt.job_id)
    )
    return found | {"partition": attempt.partition, "attempt_no": attempt.attempt_no, "worker": attempt.worker_id}


def view(
    state: str,
    times: Mapping[str, Any],
    detail: Mapping[str, Any],
    reason: str | None = None,
    session: str | None = None,
    job: str | None = None,
) -> dict[str, Any]:
    """A thing in the shape of `states.View`."""
    return {
        "state": state, "times": dict(times), "detail": dict(detail), "reason": reason, "session": session, "seq": 0,
        "job": job, "partition": None, "attempt_no": None, "worker": None,
    }  # fmt: skip
