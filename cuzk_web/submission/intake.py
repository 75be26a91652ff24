"""From the bytes of a request to a job: parsed, checked against the quota, and queued in one transaction."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db import connection, transaction

from cuzk_web.faults import made_again
from prover.errors import RequestConflict
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest
from prover.filecoin.request import ProofRequest, parse_either, parse_message

from . import quota

_SUBMIT = """
SELECT outcome, job, number, digest
FROM submit_job(%s, %s, %s, %s, %s, %s, NULL, %s, %s, %s, %s, %s, %s)
"""


@dataclass(frozen=True)
class Submitter:
    """The account that submits."""

    id: int
    name: str


@dataclass(frozen=True)
class Admitted:
    """The job of a request; `created` is False when it was there already."""

    job: uuid.UUID
    number: int
    created: bool


def parse(data: bytes, request_id: str | None = None) -> ProofRequest:
    """A request in JSON or in protobuf; `request_id`, when given, takes the place of its own. Raises InvalidInput."""
    request = parse_either(data)
    if request_id is None:
        return request
    message = SubmitProofRequest.FromString(request.canonical)
    message.request_id = request_id
    return parse_message(message.SerializeToString())


def admit(data: bytes, by: Submitter, request_id: str | None = None) -> Admitted:
    """Make the job of a request, or find the one that exists. Raises InvalidInput, RequestConflict, QuotaExceeded."""
    return _admitted(parse(data, request_id), by)


@made_again
def _admitted(request: ProofRequest, by: Submitter) -> Admitted:
    with transaction.atomic():
        outcome, job, number, digest = _submit(request, by.name)
        if outcome == "conflict":
            raise _conflict(request, number, bytes(digest))
        if outcome == "created":
            quota.charge(by.id, by.name, len(request.canonical))
    return Admitted(job, number, outcome == "created")


def _submit(request: ProofRequest, username: str) -> tuple[str, uuid.UUID, int, bytes]:
    with connection.cursor() as cursor:
        cursor.execute(_SUBMIT, [
            request.request_id, request.digest, request.kind.value, request.sector_size, request.registered_proof,
            int(request.priority), request.miner_id, request.sector_number, request.partition_index,
            request.partition_count, username, request.canonical,
        ])  # fmt: skip
        row: tuple[str, uuid.UUID, int, bytes] = cursor.fetchone()
        return row


def _conflict(request: ProofRequest, number: int, digest: bytes) -> RequestConflict:
    text = f"job {number} has this id and proves content {digest.hex()}; this request has {request.digest.hex()}"
    return RequestConflict(f"{text}. Give the request another id.", field="request_id")
