"""`cuzk job`: cancel, hold, release, retry a job, or give it another priority or deadline."""

from __future__ import annotations

import argparse
import uuid
from datetime import UTC, datetime
from typing import Any

from prover.errors import InvalidInput
from prover.states import JOB_ACTIONS, Action, Command

from .arguments import Parsers, add_database
from .exits import Exit
from .submit import user
from .terminal import note

PRIORITIES = {"low": 1, "normal": 2, "high": 3, "critical": 4}
_TEXTS = {
    Action.CANCEL: "cancel it: what is on a device runs out and is dropped",
    Action.HOLD: "keep it from being proved until it is released",
    Action.RELEASE: "queue a job that is held again",
    Action.PRIORITY: "give it another priority",
    Action.DEADLINE: "give it another deadline, or none",
    Action.RETRY: "make a new job of one that failed or was cancelled",
}


class MomentInvalid(InvalidInput):
    """No moment: 2026-11-30T08:00 (UTC), 2026-11-30T08:00+02:00, or none."""

    code = "moment_invalid"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "change what becomes of a job"
    parser = parsers.add_parser("job", help=text, description=text)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for action in JOB_ACTIONS:
        one = actions.add_parser(action, help=_TEXTS[action], description=_TEXTS[action])
        one.add_argument("job", type=uuid.UUID, metavar="JOB", help="its id")
        if action is Action.PRIORITY:
            one.add_argument("value", choices=PRIORITIES, metavar="PRIORITY", help=", ".join(PRIORITIES))
        if action is Action.DEADLINE:
            one.add_argument("value", metavar="MOMENT", help="2026-11-30T08:00, UTC unless it says otherwise; or none")
        add_database(one)
        one.set_defaults(run=run, action=action)


def run(arguments: argparse.Namespace) -> Exit:
    from prover.journal.client import Client

    values = _values(arguments)
    client = Client(arguments.database)
    try:
        answer = client.request_job(arguments.action, str(arguments.job), user(), values)
    finally:
        client.close()
    if answer.state == Command.REFUSED:
        note(f"refused: {answer.outcome}")
        return Exit.REFUSED
    note(answer.outcome if answer.state == Command.DONE else "its prover was asked")
    if answer.retried_as is not None:
        print(answer.retried_as)
    return Exit.OK


def _values(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.action is Action.PRIORITY:
        return {"priority": PRIORITIES[arguments.value]}
    if arguments.action is Action.DEADLINE:
        return {"deadline_us": None if arguments.value == "none" else moment_us(arguments.value)}
    return {}


def moment_us(text: str) -> int:
    """Microseconds since 1970. Raises MomentInvalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MomentInvalid(f"{text!r} is no moment such as 2026-11-30T08:00", field="deadline") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
