"""The original's TIMELINE lines, from recorded moves: `TIMELINE,MILLISECONDS,EVENT,JOB,DETAIL`.

The events are the original's. A job goes by its request id. The times are those of the log, so that every path (split,
synchronous, monolithic) and every kind has all of its lines. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .states import ATTEMPT_ENDS, Attempt, Entity, Transition


def timeline(moves: Iterable[tuple[str, Transition]], start_us: int) -> Iterator[str]:
    """The lines of attempts' moves, each with its job's request id, in the order of their times."""
    since: dict[str, dict[str, int]] = {}
    for name, move in moves:
        if move.entity is not Entity.ATTEMPT:
            continue
        times = since.setdefault(move.entity_id, {})
        times[move.new] = move.at_us
        for event, detail in _events(move, times):
            yield f"TIMELINE,{(move.at_us - start_us) // 1000},{event},{name},{detail}"
        if move.new in ATTEMPT_ENDS:
            del since[move.entity_id]


def _events(move: Transition, times: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """`times`: when the attempt entered each of its states."""
    partition, worker = f"partition={move.partition}", f"worker={(move.worker or '').partition('/')[2]}"
    match move.new:
        case Attempt.SYNTHESIZING:
            yield "SYNTH_START", partition
        case Attempt.READY:
            yield "SYNTH_END", f"{partition},synth_ms={_since(move, times, Attempt.SYNTHESIZING)}"
            yield "GPU_QUEUE", partition
        case Attempt.CLAIMED:
            yield "GPU_PICKUP", f"{worker},{partition}"
        case Attempt.DEVICE:
            yield "GPU_START", f"{worker},{partition}"
        case Attempt.FINALIZING | Attempt.FINISHING:
            yield "GPU_END", f"{worker},{partition},gpu_ms={_since(move, times, Attempt.DEVICE)}"


def _since(move: Transition, times: Mapping[str, int], state: str) -> int:
    """Milliseconds since the attempt entered a state."""
    return (move.at_us - times.get(state, move.at_us)) // 1000
