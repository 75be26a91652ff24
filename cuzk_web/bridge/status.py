"""GET /status of an original daemon, read with suspicion: every field is checked, everything is bounded.

What is not needed (buffers, memory of allocations) is not looked at; what is needed and wrong refuses the whole answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from prover.errors import InvalidInput

T = TypeVar("T")

MOST_BYTES: Final = 4 * 1024 * 1024  # of an answer
MOST_JOBS: Final = 1000
MOST_PARTITIONS: Final = 1024  # of a job
MOST_WORKERS: Final = 256
MOST_KEYS: Final = 200
LONGEST: Final = 300  # characters of a name
MOST: Final = 2**53 - 1  # of a number
PARTITION_STATES: Final = ("pending", "synthesizing", "synth_done", "gpu", "done", "failed")
WORKER_STATES: Final = ("idle", "proving")


class StatusInvalid(InvalidInput):
    """The answer of the daemon is not the status of a cuzk daemon."""

    code = "status_invalid"


@dataclass(frozen=True, slots=True)
class Partition:
    """As the daemon sees it; milliseconds."""

    index: int
    state: str
    synth_ms: int | None
    gpu_ms: int | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A job that the daemon shows."""

    job: str
    kind: str
    started_s: float
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class GpuWorker:
    """`job` and `partition` are what it says that it is doing."""

    number: int
    gpu: int
    proving: bool
    job: str | None
    partition: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """One answer."""

    uptime_s: float
    memory_total: int
    memory_used: int
    synth_active: int
    queue_depth: int
    pipelines: tuple[Pipeline, ...]
    workers: tuple[GpuWorker, ...]
    keys: Mapping[str, int]  # -> bytes
    completed: Mapping[str, int]  # by kind


def parse(body: bytes) -> Status:
    """Raises StatusInvalid, naming the field and the limit."""
    if len(body) > MOST_BYTES:
        raise StatusInvalid(f"longer than {MOST_BYTES} bytes")
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise StatusInvalid("not JSON") from None
    return _status(_object(value, "status"))


def _status(value: Mapping[str, Any]) -> Status:
    memory, counters = _object(value.get("memory"), "memory"), _object(value.get("counters"), "counters")
    synthesis = _object(value.get("synthesis"), "synthesis")
    allocations = _object(value.get("allocations"), "allocations")
    keys = _list(allocations.get("srs"), "allocations.srs", MOST_KEYS, _key)
    completed = _object(counters.get("completed_by_kind"), "counters.completed_by_kind")
    if len(completed) > MOST_KEYS:
        raise StatusInvalid(f"more than {MOST_KEYS}", field="counters.completed_by_kind")
    status = Status(
        _number(value.get("uptime_secs"), "uptime_secs"),
        _count(memory.get("total_bytes"), "memory.total_bytes"), _count(memory.get("used_bytes"), "memory.used_bytes"),
        _count(synthesis.get("active"), "synthesis.active"),
        _count(counters.get("queue_depth"), "counters.queue_depth"),
        _list(value.get("pipelines"), "pipelines", MOST_JOBS, _pipeline),
        _list(value.get("gpu_workers"), "gpu_workers", MOST_WORKERS, _worker), dict(keys),
        {_text(kind, "kind"): _count(n, f"completed_by_kind[{kind[:40]}]") for kind, n in completed.items()},
    )  # fmt: skip
    _unique([p.job for p in status.pipelines], "pipelines.job_id")
    _unique([w.number for w in status.workers], "gpu_workers.worker_id")
    return status


def _pipeline(value: Any, field: str) -> Pipeline:
    of = _object(value, field)
    partitions = _list(of.get("partitions"), f"{field}.partitions", MOST_PARTITIONS, _partition)
    if not partitions or sorted(p.index for p in partitions) != list(range(len(partitions))):
        raise StatusInvalid("their indexes are not 0, 1, 2 and so on", field=f"{field}.partitions")
    return Pipeline(
        _text(of.get("job_id"), f"{field}.job_id"), _text(of.get("proof_kind"), f"{field}.proof_kind"),
        _number(of.get("started_secs_ago"), f"{field}.started_secs_ago"), partitions,
    )  # fmt: skip


def _partition(value: Any, field: str) -> Partition:
    of = _object(value, field)
    return Partition(
        _count(of.get("index"), f"{field}.index"), _word(of.get("state"), f"{field}.state", PARTITION_STATES),
        _optional(of.get("synth_ms"), f"{field}.synth_ms", _count),
        _optional(of.get("gpu_ms"), f"{field}.gpu_ms", _count),
    )  # fmt: skip


def _worker(value: Any, field: str) -> GpuWorker:
    of = _object(value, field)
    number, gpu = (
        _count(of.get("worker_id"), f"{field}.worker_id"),
        _count(of.get("gpu_ordinal"), f"{field}.gpu_ordinal"),
    )
    if max(number, gpu) > 100_000:
        raise StatusInvalid("a number above 100000", field=field)
    return GpuWorker(
        number, gpu, _word(of.get("state"), f"{field}.state", WORKER_STATES) == "proving",
        _optional(of.get("current_job"), f"{field}.current_job", _text),
        _optional(of.get("current_partition"), f"{field}.current_partition", _count),
    )  # fmt: skip


def _key(value: Any, field: str) -> tuple[str, int]:
    of = _object(value, field)
    return _text(of.get("circuit_id"), f"{field}.circuit_id"), _count(of.get("bytes"), f"{field}.bytes")


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise StatusInvalid("not an object", field=field)
    return value


def _list(value: Any, field: str, most: int, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise StatusInvalid(f"not a list of up to {most}", field=field)
    return tuple(read(one, f"{field}[{number}]") for number, one in enumerate(value))


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise StatusInvalid(f"not 1 to {LONGEST} printable characters", field=field)
    return value


def _word(value: Any, field: str, words: tuple[str, ...]) -> str:
    if value not in words:
        raise StatusInvalid(f"not one of {', '.join(words)}", field=field)
    return str(value)


def _count(value: Any, field: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise StatusInvalid(f"not a whole number from 0 to {MOST}", field=field)
    return value


def _number(value: Any, field: str) -> float:
    if type(value) not in (int, float) or not (0 <= value <= MOST) or not math.isfinite(value):
        raise StatusInvalid(f"not a number from 0 to {MOST}", field=field)
    return float(value)


def _optional(value: Any, field: str, read: Callable[[Any, str], T]) -> T | None:
    return None if value is None else read(value, field)


def _unique(values: list[Any], field: str) -> None:
    if len(set(values)) != len(values):
        raise StatusInvalid("one is there twice", field=field)


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)
