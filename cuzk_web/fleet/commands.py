"""What people ask of workers: checked, written as a command row with its event, and answered by the prover.

The prover that has the worker executes the command; nothing here changes a worker. What is refused here is refused
before anybody waits for an answer; the prover may still refuse, with its own reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from prover.errors import CommandRefused, CuzkError
from prover.states import WORKER_ACTIONS, Action, Lifecycle, action_refusal
from prover.states import Command as CommandState

from .models import Command, Worker

ACTIONS = tuple(action.value for action in WORKER_ACTIONS)
CONFIRMED = frozenset({Action.DRAIN.value, Action.DISABLE.value})  # asked once more in the admin: they empty a machine
OPEN = (CommandState.PENDING.value, CommandState.TAKEN.value)


class UnknownWorker(CuzkError):
    """There is no such worker."""

    code = "unknown_worker"


@dataclass(frozen=True)
class Asked:
    """A command; `created` is False when the same one was waiting for its answer already."""

    command: Command
    created: bool


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


def refusal(worker: Worker, action: str) -> str | None:
    """Why a worker (with its `alive` annotation) may not be asked for an action now; None when it may."""
    if worker.state != Lifecycle.ONLINE or not worker.alive:  # type: ignore[attr-defined]
        return "its prover is not online, so nobody would execute it"
    return action_refusal(action, worker.admin)


def with_liveness() -> Q:
    """Whether the session of a worker holds its lease, by the database's clock."""
    return Q(session__state=Lifecycle.ONLINE.value, session__lease_until__gt=Now())


def _lock(worker_id: str) -> None:
    """One at a time a worker, until the transaction ends: parallel clicks make one command."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('command ' || %s, 0))", [worker_id])


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
