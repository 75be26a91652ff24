"""What people ask of workers and jobs: checked, written as a command row with its event, and answered by the prover.

The prover that has the worker or the job executes the command; nothing here changes a worker. What is refused here is
refused before anybody waits for an answer; the prover may still refuse, with its own reason. What is asked of a job
that no prover has is executed by the database itself.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from cuzk_web.faults import made_again
from prover.errors import CommandRefused, CuzkError
from prover.states import (
    JOB_ACTIONS,
    KEY_ACTIONS,
    WORKER_ACTIONS,
    Action,
    Admin,
    Lifecycle,
    Target,
    action_refusal,
    offered,
)
from prover.states import Command as CommandState
from prover.states import Job as JobState

from .models import Command, Holding, Job, Worker

ACTIONS = tuple(action.value for action in WORKER_ACTIONS)
OF_JOBS = tuple(action.value for action in JOB_ACTIONS)
CONFIRMED = frozenset({Action.DRAIN.value, Action.DISABLE.value})  # asked once more: they empty a machine
ON_CARDS = (Action.PAUSE, Action.RESUME, Action.DRAIN, Action.ENABLE)  # the admin has what is rarely asked, too
#: what the worker is asked to do
MEANING = {
    Action.PAUSE: "take nothing new",
    Action.RESUME: "take work again",
    Action.DRAIN: "finish what runs, take nothing new until resumed",
    Action.DISABLE: "finish what runs, take nothing new until enabled",
    Action.ENABLE: "take work again",
    Action.RESTART: "finish what runs, then go on in a new thread",
}
OF_KEYS = tuple(action.value for action in KEY_ACTIONS)
#: what becomes of the key
KEY_MEANING = {
    Action.PRELOAD: "load it before a job needs it",
    Action.EVICT: "let it go, if nobody uses it",
    Action.PIN: "keep it from being evicted",
    Action.UNPIN: "let it be evicted when it is idle",
}
#: what becomes of the job
JOB_MEANING = {
    Action.CANCEL: "no proof of it; what is on a device runs out and is dropped",
    Action.HOLD: "no prover takes it until it is released",
    Action.RELEASE: "queue it again",
    Action.PRIORITY: "change its priority in every queue",
    Action.DEADLINE: "change when its proof must be there, or take that away",
    Action.RETRY: "a new job of the same request, with the proofs that exist",
}
OPEN = (CommandState.PENDING.value, CommandState.TAKEN.value)


class UnknownWorker(CuzkError):
    """There is no such worker."""

    code = "unknown_worker"


class UnknownJob(CuzkError):
    """There is no such job."""

    code = "unknown_job"


class Cancelled(StrEnum):
    """What came of the wish to cancel a job."""

    AT_ONCE = "cancelled"  # nobody had it
    ASKED = "requested"  # its prover was asked
    WAITING = "waiting"  # its prover was asked before and has not answered yet
    BEFORE = "before"  # it was cancelled before


@dataclass(frozen=True)
class JobAnswer:
    """What came of an action of a job: `state` is that of its command, done when no prover had the job.

    `created` is False when the same was waiting for its answer already; `retried_as` is the new job of a retry.
    """

    state: str
    outcome: str = ""
    created: bool = True
    retried_as: uuid.UUID | None = None


@dataclass(frozen=True)
class Asked:
    """A command; `created` is False when the same one was waiting for its answer already."""

    command: Command
    created: bool


def card_actions() -> list[dict[str, Any]]:
    """What the cards of the live page offer: the wishes that each action makes sense from, and whether to ask twice."""
    return [
        {
            "action": action.value,
            "from": [wish.value for wish in Admin if action in offered(wish)],
            "meaning": MEANING[action],
            "confirm": action.value in CONFIRMED,
        }
        for action in ON_CARDS
    ]


@made_again
def ask(user: User, worker_id: str, action: str) -> Asked:
    """Ask for an action (one of ACTIONS). Raises UnknownWorker, CommandRefused."""
    if "\0" in worker_id:  # the database keeps none
        raise UnknownWorker
    with transaction.atomic():
        _lock(worker_id)
        worker = _worker(worker_id)
        waiting = Command.objects.filter(target=worker_id, action=action, state__in=OPEN, prover=worker.prover).first()
        if waiting is not None:
            return Asked(waiting, created=False)
        if (reason := refusal(worker, action)) is not None:
            raise CommandRefused(f"W{worker.display_id}: {reason}", field=worker_id)
        made = _write(user, worker_id, action)
        LogEntry.objects.log_actions(user.pk, [worker], CHANGE, change_message=f"asked to {action}", single_object=True)
    return Asked(made, created=True)


@made_again
def ask_key(user: User, holding: Holding, action: str) -> None:
    """Ask its prover for an action of a key (one of OF_KEYS). Raises CommandRefused."""
    prover, kind, name = holding.pk.split(":", 2)
    if kind != "key":
        raise CommandRefused("it is no key", field=holding.pk)
    if not Holding.objects.filter(with_liveness(), pk=holding.pk).exists():
        raise CommandRefused("its prover is not online, so nobody would execute it", field=holding.pk)
    values: list[Any] = [action, f"{prover}:{name.partition('@')[0]}", user.pk, user.get_username()]
    said = f"asked to {action}"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT request_command(%s, %s, %s, %s, '{}', 'key')", values)
        LogEntry.objects.log_actions(user.pk, [holding], CHANGE, change_message=said, single_object=True)


@made_again
def ask_job(user: User, job_id: uuid.UUID, action: str, arguments: Mapping[str, Any] | None = None) -> JobAnswer:
    """Ask for an action of a job (one of OF_JOBS): executed at once, or by the prover that has it.

    Raises UnknownJob; CommandRefused when it makes no sense now, or the job's prover cannot be reached.
    """
    with transaction.atomic():
        _lock(str(job_id))
        job = Job.objects.select_related("session").filter(pk=job_id).first()
        if job is None:
            raise UnknownJob(field=str(job_id))
        if (waiting := waiting_command(job, action, arguments)) is not None:
            return JobAnswer(waiting.state, created=False)
        answer = _request_job(user, job, action, arguments or {})
        LogEntry.objects.log_actions(
            user.pk, [job], CHANGE, change_message=f"asked to {_spelled(action, arguments)}", single_object=True
        )
    return answer


def cancel(user: User, job_id: uuid.UUID) -> Cancelled:
    """Cancel a job: at once, or by its prover, which drops what runs at the next end of a step. Twice is as once.

    Raises UnknownJob; CommandRefused when the job has ended otherwise, or its prover cannot be reached.
    """
    try:
        answer = ask_job(user, job_id, Action.CANCEL)
    except CommandRefused:
        if Job.objects.filter(pk=job_id, state=JobState.CANCELLED.value).exists():
            return Cancelled.BEFORE
        raise
    if answer.state == CommandState.DONE:
        return Cancelled.AT_ONCE
    return Cancelled.ASKED if answer.created else Cancelled.WAITING


def waiting_command(job: Job, action: str, arguments: Mapping[str, Any] | None = None) -> Command | None:
    """The same wish of this job that its prover has not answered yet."""
    asked = Command.objects.filter(
        target=str(job.pk), target_kind=Target.JOB.value, action=action, arguments=dict(arguments or {}), state__in=OPEN
    )
    held = job.session is not None and job.ended_at is None
    return asked.filter(prover=job.session.prover).first() if held and job.session else None


def _spelled(action: str, arguments: Mapping[str, Any] | None) -> str:
    """For the audit: "cancel", "set priority 3"."""
    return action if not arguments else " ".join(["set", action, *map(str, arguments.values())])


def _request_job(user: User, job: Job, action: str, arguments: Mapping[str, Any]) -> JobAnswer:
    """By the database's function: the job may have moved since it was read."""
    values: list[Any] = [action, job.pk, user.pk, user.get_username(), json.dumps(dict(arguments))]
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, outcome, retried_as FROM request_job(%s, %s, %s, %s, %s::jsonb)", values)
        state, outcome, retried_as = cursor.fetchone()
    if state == CommandState.REFUSED:
        raise CommandRefused(f"job {job.number}: {outcome}", field=str(job.pk))
    if state == CommandState.PENDING and not Job.objects.filter(with_liveness(), pk=job.pk).exists():
        raise CommandRefused(
            f"job {job.number}: its prover is not online, so nobody would execute it; soon it will be given back, and"
            f" one can {action} it then",
            field=str(job.pk),
        )
    return JobAnswer(state, outcome or "", retried_as=retried_as)


def refusal(worker: Worker, action: str) -> str | None:
    """Why a worker (with its `alive` annotation) may not be asked for an action now; None when it may."""
    if worker.state != Lifecycle.ONLINE or not worker.alive:  # type: ignore[attr-defined]
        return "its prover is not online, so nobody would execute it"
    return action_refusal(action, worker.admin)


def with_liveness() -> Q:
    """Whether the session of a worker holds its lease, by the database's clock."""
    return Q(session__state=Lifecycle.ONLINE.value, session__lease_until__gt=Now())


def _lock(target: str) -> None:
    """One at a time a worker or job, until the transaction ends: parallel clicks make one command."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('command ' || %s, 0))", [target])


def _worker(worker_id: str) -> Worker:
    alive = ExpressionWrapper(with_liveness(), output_field=BooleanField())
    worker = Worker.objects.annotate(alive=alive).filter(pk=worker_id).first()
    if worker is None:
        raise UnknownWorker(field=worker_id)
    return worker


def _write(user: User, worker_id: str, action: str) -> Command:
    with connection.cursor() as cursor:
        cursor.execute("SELECT request_command(%s, %s, %s, %s)", [action, worker_id, user.pk, user.get_username()])
        (command_id,) = cursor.fetchone()
    return Command.objects.get(pk=command_id)
