"""What is put into the journal, in order, and its form in the spool: one JSON object a record."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prover.states import Refused, Transition

MAX_PROOF = 1 << 20  # bytes of one delivery: 192 for each of at most some thousand partitions


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A move that was refused; `number` counts them in the session, so that none is counted twice."""

    number: int | None
    at_us: int
    code: str
    entity: str
    entity_id: str
    old: str
    new: str
    detail: Mapping[str, Any]

    @staticmethod
    def of(refused: Refused, number: int) -> Anomaly:
        """The record of a refused move."""
        move = refused.move
        detail = {"worker": move.worker, "reason": move.reason, **move.detail}
        words = (refused.anomaly.value, move.entity.value, move.entity_id, refused.old, move.new)
        return Anomaly(number, refused.at_us, *words, detail)


@dataclass(frozen=True, slots=True)
class Sample:
    """Gauges of a moment."""

    at_us: int
    gauges: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proof:
    """A verified proof of one partition: a fact, whoever brings it."""

    job: str
    partition: int
    attempt_no: int
    proof: bytes
    at_us: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """The assembled and verified proof of a job."""

    job: str
    proof: bytes
    at_us: int


Record = Transition | Anomaly | Sample | Proof | Delivery


def to_json(record: Record) -> list[Any]:
    """A JSON array: the kind of record, then its fields."""
    match record:
        case Transition():
            return ["transition", *record.to_row()]
        case Anomaly(number, at_us, code, entity, entity_id, old, new, detail):
            return ["anomaly", number, at_us, code, entity, entity_id, old, new, dict(detail)]
        case Sample(at_us, gauges):
            return ["sample", at_us, dict(gauges)]
        case Proof(job, partition, attempt_no, proof, at_us):
            return ["proof", job, partition, attempt_no, _text(proof), at_us]
        case Delivery(job, proof, at_us):
            return ["delivery", job, _text(proof), at_us]


def from_json(value: object) -> Record:
    """Inverse of `to_json`. Raises ValueError for anything else."""
    if not isinstance(value, list) or not value:
        raise ValueError("a record is a JSON array")
    kind, *fields = value
    try:
        match kind:
            case "transition":
                return Transition.from_row(fields)
            case "proof":
                job, partition, attempt_no, proof, at_us = fields
                return Proof(str(job), int(partition), int(attempt_no), _bytes(proof), int(at_us))
            case "delivery":
                job, proof, at_us = fields
                return Delivery(str(job), _bytes(proof), int(at_us))
            case "anomaly":
                return Anomaly(*fields)
            case "sample":
                return Sample(*fields)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"not a {kind}: {error}") from error
    raise ValueError(f"{kind!r} is no kind of record")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    if len(data) > MAX_PROOF:
        raise ValueError(f"a proof of {len(data)} bytes is larger than {MAX_PROOF}")
    return data
