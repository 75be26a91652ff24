"""What people ask of workers and jobs: checked, written as a command row with its event, and answered by the prover.

The prover that has the worker or the job executes the command; nothing here changes a worker. What is refused here is
refused before anybody waits for an answer; the prover may still refuse, with its own reason. A job that no prover has
is cancelled by the database itself.
"""

from __future__ import annotations

import uuid
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
from prover.states import JOB_ENDS, WORKER_ACTIONS, Action, Admin, Lifecycle, action_refusal, offered
from prover.states import Command as CommandState
from prover.states import Job as JobState

from .models import Command, Job, Worker

ACTIONS = tuple(action.value for action in WORKER_ACTIONS)
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
def cancel(user: User, job_id: uuid.UUID) -> Cancelled:
    """Cancel a job: at once, or by its prover, which drops what runs at the next end of a step. Twice is as once.

    Raises UnknownJob; CommandRefused when the job has ended otherwise, or its prover cannot be reached.
    """
    with transaction.atomic():
        _lock(str(job_id))
        job = Job.objects.select_related("session").filter(pk=job_id).first()
        if job is None:
            raise UnknownJob(field=str(job_id))
        if job.state == JobState.CANCELLED:
            return Cancelled.BEFORE
        if job.state not in JOB_ENDS and waiting_cancel(job) is not None:
            return Cancelled.WAITING
        outcome = _cancel(user, job)
        LogEntry.objects.log_actions(user.pk, [job], CHANGE, change_message="asked to cancel", single_object=True)
    return outcome


def waiting_cancel(job: Job) -> Command | None:
    """The wish to cancel this job that its prover has not answered yet."""
    asked = Command.objects.filter(target=str(job.pk), action=Action.CANCEL.value, state__in=OPEN)
    return asked.filter(prover=job.session.prover).first() if job.session else None


def _cancel(user: User, job: Job) -> Cancelled:
    """By the database's function: the job may have moved since it was read."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cancel_job(%s, %s, %s)", [job.pk, user.pk, user.get_username()])
        (word,) = cursor.fetchone()
    job.refresh_from_db()
    if word == "ended":
        raise CommandRefused(f"job {job.number} is {job.state} already", field=str(job.pk))
    if word == Cancelled.ASKED and not Job.objects.filter(with_liveness(), pk=job.pk).exists():
        raise CommandRefused(
            f"job {job.number}: its prover is not online, so nobody would execute it; soon it will be given back, and"
            " can be cancelled then",
            field=str(job.pk),
        )
    return Cancelled(word)


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
