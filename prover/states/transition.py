"""One accepted move of one thing: the row of the journal, the frame on the socket, the input of the fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .enums import Entity

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transition:
    """`at_us` is the database's wall time in microseconds since 1970 (UTC); `mono_ns` the session's monotonic clock.

    `seq` is dense from 1 and unique within its session. `attempt_no` counts from 1. Fields that do not apply are None.
    """

    session: str
    seq: int
    at_us: int
    mono_ns: int
    entity: Entity
    entity_id: str
    old: str
    new: str
    job: str | None = None
    partition: int | None = None
    attempt_no: int | None = None
    worker: str | None = None
    reason: str | None = None  # a stable code, e.g. of an error
    detail: JsonObject = field(default_factory=dict)

    def to_row(self) -> list[Any]:
        """The JSON array that travels to browsers; `from_row` reads it back. The order is part of the protocol."""
        return [
            self.session, self.seq, self.at_us, self.mono_ns, self.entity.value, self.entity_id, self.old, self.new,
            self.job, self.partition, self.attempt_no, self.worker, self.reason, dict(self.detail),
        ]  # fmt: skip

    @staticmethod
    def from_row(row: Sequence[Any]) -> Transition:
        """Inverse of `to_row`. Raises ValueError for a row of another length or an unknown entity."""
        if len(row) != 14:
            raise ValueError(f"a transition row has 14 fields, not {len(row)}")
        session, seq, at_us, mono_ns, entity, *rest = row
        return Transition(session, seq, at_us, mono_ns, Entity(entity), *rest)


def attempt_id(job: str, partition: int, attempt_no: int) -> str:
    """The identity of an attempt; unique because a retry has another number."""
    return f"{job}:{partition}:{attempt_no}"


def worker_id(prover: str, ordinal: int, sub_id: int) -> str:
    """The stable identity of a worker: it survives restarts, and adding workers moves nobody else's."""
    return f"{prover}/{ordinal}/{sub_id}"


def device_id(prover: str, ordinal: int) -> str:
    """The stable identity of a device."""
    return f"{prover}/{ordinal}"
