"""What is put into the journal, in order, and its form in the spool: one JSON object a record."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prover.states import Refused, Transition

from .text import MAX_TIME

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
                return _transition(fields)
            case "proof":
                job, partition, attempt_no, proof, at_us = fields
                return Proof(_str(job), _int(partition), _int(attempt_no), _bytes(proof), _time(at_us))
            case "delivery":
                job, proof, at_us = fields
                return Delivery(_str(job), _bytes(proof), _time(at_us))
            case "anomaly":
                number, at_us, code, entity, entity_id, old, new, detail = fields
                words = (_str(code), _str(entity), _str(entity_id), _str(old), _str(new))
                return Anomaly(None if number is None else _int(number), _time(at_us), *words, _object(detail))
            case "sample":
                at_us, gauges = fields
                return Sample(_time(at_us), _object(gauges))
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"not a {kind}: {error}") from error
    raise ValueError(f"{kind!r} is no kind of record")


def _transition(fields: list[Any]) -> Transition:
    t = Transition.from_row(fields)
    _time(t.at_us)
    for number in (t.seq, t.mono_ns, t.partition or 0, t.attempt_no or 0):
        _int(number)
    for text in (t.session, t.entity_id, t.old, t.new, t.job or "", t.worker or "", t.reason or ""):
        _str(text)
    _object(t.detail)
    return t


def _int(value: object) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{str(value)[:40]!r} is no integer of 64 bits")
    return value


def _time(value: object) -> int:
    if not 0 <= _int(value) < MAX_TIME:
        raise ValueError(f"{value} is beyond the calendar")
    return _int(value)


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is no text")
    return value


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:40]!r} is no JSON object")
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: object) -> bytes:
    data = base64.b64decode(_str(text), validate=True)
    if len(data) > MAX_PROOF:
        raise ValueError(f"a proof of {len(data)} bytes is larger than {MAX_PROOF}")
    return data
