"""How long a job spent in each phase, from the times of its attempts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..states import Attempt, Entity, FleetState, Job

#: phase -> (the states it starts with, the states that end it), first of each that the attempt entered
_PHASES: Mapping[str, tuple[tuple[Attempt, ...], tuple[Attempt, ...]]] = {
    "synthesis_ms": ((Attempt.SYNTHESIZING,), (Attempt.READY,)),
    "device_wait_ms": ((Attempt.DEVICE_WAIT,), (Attempt.DEVICE,)),
    "device_ms": ((Attempt.DEVICE,), (Attempt.FINALIZING, Attempt.FINISHING)),
    "tail_ms": ((Attempt.FINALIZING, Attempt.FINISHING), (Attempt.DONE,)),
}


def timings(state: FleetState, job: str, attempts: Iterable[str]) -> dict[str, int]:
    """Milliseconds by phase: sums over all attempts (they overlap); and of the job itself, by the wall, until now."""
    views = [state.get(Entity.ATTEMPT, attempt).times for attempt in attempts]
    sums = {phase: sum(_lasted(times, *ends) for times in views) // 1000 for phase, ends in _PHASES.items()}
    own = state.get(Entity.JOB, job).times
    last = max((at for times in [own, *views] for at in times.values()), default=0)
    queued, loading, running = own.get(Job.QUEUED, last), own.get(Job.LOADING, last), own.get(Job.RUNNING, last)
    return {
        "queue_ms": max(loading - queued, 0) // 1000, "load_ms": max(running - loading, 0) // 1000, **sums,
        "total_ms": max(last - queued, 0) // 1000,
    }  # fmt: skip


def _lasted(times: Mapping[str, int], starts: tuple[Attempt, ...], ends: tuple[Attempt, ...]) -> int:
    start = next((times[state] for state in starts if state in times), None)
    end = next((times[state] for state in ends if state in times), None)
    return 0 if start is None or end is None else max(end - start, 0)
