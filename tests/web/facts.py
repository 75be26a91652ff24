"""Rows as a prover would have written them, for tests of pages that only read."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from cuzk_web.fleet.models import Attempt, Delivery, Device, Job, JobInput, Session, Transition, Worker

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
_numbers = itertools.count(1_000_000)


def us(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000 + at.microsecond


def session(prover: str = "alpha", **fields: Any) -> Session:
    """A live session whose lease has a minute to go."""
    now = datetime.now(UTC)
    lease = {"heartbeat_at": now, "lease_until": now + timedelta(minutes=1)}
    defaults = {"started_at": now, "state": "online", "state_at": now} | lease
    return Session.objects.create(prover=prover, host="host", **(defaults | fields))


def worker(of: Session, ordinal: int = 0, sub: int = 0, **fields: Any) -> Worker:
    """A worker, with its device when that is new."""
    described = {"session": of, "state": "online", "state_at": of.state_at, "ordinal": ordinal}
    key = f"{of.prover}/{ordinal}"
    device, _ = Device.objects.get_or_create(id=key, defaults=described | {"name": "cpu", "platform": "cpu"})
    defaults = {"display_id": 2 * ordinal + sub, "state": "online", "state_at": of.started_at}
    return Worker.objects.create(
        id=f"{of.prover}/{ordinal}/{sub}", session=of, device=device, prover=of.prover, ordinal=ordinal, sub_id=sub,
        **(defaults | fields),
    )  # fmt: skip


def job(**fields: Any) -> Job:
    """A queued WindowPoSt job."""
    number = fields.pop("number", None) or next(_numbers)
    defaults: dict[str, Any] = {
        "request_id": f"wdpost-1000-0-{number}", "request_digest": bytes(32), "kind": "window-post",
        "sector_size": 2048, "registered_proof": 10, "priority": 3, "miner_id": 1000, "partitions": 1,
        "submitted_by": "olga", "submitted_at": START, "state": "queued", "state_at": START,
    }  # fmt: skip
    return Job.objects.create(number=number, **(defaults | fields))


def done_job(proof: bytes = bytes(192), **fields: Any) -> Job:
    """A job that was delivered 10 s after it was submitted, with its input."""
    defaults = {"state": "done", "started_at": START + timedelta(seconds=2), "ended_at": START + timedelta(seconds=10)}
    made = job(**({"partitions_done": fields.get("partitions", 1), "local_keys": True} | defaults | fields))
    Delivery.objects.create(job=made, proof=proof, verified_at=made.ended_at)
    JobInput.objects.create(job=made, request=b"request of " + made.request_id.encode())
    return made


def attempt(
    of: Job, by: Worker | Session, steps: dict[str, float], partition: int = 0, number: int = 1, **fields: Any
) -> Attempt:
    """An attempt that entered each state of `steps` so many seconds after START."""
    times = {state: us(START + timedelta(seconds=seconds)) for state, seconds in steps.items()}
    held_by = by if isinstance(by, Worker) else None
    return Attempt.objects.create(
        id=f"{of.id}:{partition}:{number}", job=of, partition=partition, attempt_no=number, worker=held_by,
        session=by.session if isinstance(by, Worker) else by, state=list(steps)[-1],
        state_at=START, times=times, **fields,
    )  # fmt: skip


def events(of: Job, by: Session, count: int, at: datetime = START, step_ms: int = 0) -> list[Transition]:
    """`count` transitions of a job; with `step_ms` 0 all at one moment."""
    return Transition.objects.bulk_create(
        Transition(
            session=by, seq=seq, at=at + timedelta(milliseconds=step_ms * seq), mono_ns=seq, entity="attempt",
            entity_id=f"{of.id}:0:{seq}", old="", new="pending", job=of.id, partition=0, attempt_no=seq,
        )
        for seq in range(1, count + 1)
    )  # fmt: skip


def some_uuid() -> str:
    return str(uuid.uuid4())
