"""What people ask of jobs that this session holds. Those that nobody holds are the database's to act upon."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import CommandRefused
from ..states import JOB_ENDS, Action, Entity, job_refusal
from .jobs import JobBook
from .sources import EngineCommand
from .tracker import StatusTracker

_OUTCOMES: Mapping[str, str] = {
    Action.CANCEL: "cancelled: what is on a device runs out and is dropped",
    Action.HOLD: "held until it is released: proofs that exist are kept, what is on a device runs out and is dropped",
    Action.PRIORITY: "its place in the queues is changed",
    Action.DEADLINE: "its place in the queues is changed",
}


class JobCommands:
    """Executes them."""

    def __init__(self, tracker: StatusTracker, book: JobBook) -> None:
        self._tracker = tracker
        self._actions: Mapping[str, Callable[[EngineCommand], bool]] = {
            Action.CANCEL: lambda command: book.cancel(command.target, by=command.by),
            Action.HOLD: lambda command: book.hold(command.target, by=command.by),
            Action.PRIORITY: lambda command: book.set_priority(
                command.target, int(command.arguments["priority"]), by=command.by
            ),
            Action.DEADLINE: lambda command: book.set_deadline(
                command.target, _deadline(command.arguments["deadline_us"]), by=command.by
            ),
        }
        self._book = book

    def knows(self, job: str) -> bool:
        """Whether it is here, or has ended here."""
        return self._book.has(job) or self._state(job) in JOB_ENDS

    def __call__(self, command: EngineCommand) -> str | None:
        """The outcome; None when the job is not here any more and has not ended here. Raises CommandRefused."""
        if self._book.has(command.target):
            refusal = job_refusal(command.action, self._state(command.target))
            if refusal is not None:
                raise CommandRefused(refusal, field="action")
            if self._actions[command.action](command):
                return _OUTCOMES[command.action]
        if self._state(command.target) in JOB_ENDS:
            raise CommandRefused("it had ended before", field="target")
        return None

    def _state(self, job: str) -> str:
        return self._tracker.read(lambda state: state.get(Entity.JOB, job).state)


def _deadline(value: object) -> int | None:
    return None if value is None else int(str(value))
