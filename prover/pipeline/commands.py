"""What people ask of the engine: each command is executed once and answered by a transition of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping

from ..errors import CommandRefused, CuzkError
from ..states import JOB_ENDS, WISHES, Action, Command, Entity, action_refusal
from .jobs import JobBook
from .sources import EngineCommand
from .tracker import StatusTracker

_REMEMBERED = 10_000  # executed ids: a command that is handed over again is not executed again

_OUTCOMES: Mapping[str, str] = {
    Action.PAUSE: "paused: it finishes what it does and takes nothing new",
    Action.RESUME: "takes work again",
    Action.DRAIN: "draining: it takes nothing new; drained once its last tail is finished",
    Action.DISABLE: "disabled: it finishes what it does and takes nothing new until it is enabled",
    Action.ENABLE: "takes work again",
    Action.RESTART: "starts again in a new thread, with the next epoch, once it has finished what it does",
}


class Commands:
    """Executes commands. `changed` is called when a worker may take work now that could not before, or the reverse.

    `workers` are those of this session by their ids, each with what makes it start again.
    """

    def __init__(
        self, tracker: StatusTracker, book: JobBook, workers: Mapping[str, Callable[[], None]],
        changed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._tracker = tracker
        self._book = book
        self._workers = workers
        self._changed = changed
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._early: defaultdict[str, list[EngineCommand]] = defaultdict(list)  # by job: claimed, but not here yet

    def execute(self, command: EngineCommand) -> None:
        """Do it and answer; what was executed already is left alone.

        A wish to cancel a job that is not here, and has not ended here, waits until the job is: it was claimed a moment
        ago. When it was given back instead, the database executes the wish, so it gets no answer here.
        """
        with self._lock:
            if command.id in self._seen:
                return
            if command.action == Action.CANCEL and not self._is_known(command.target):
                self._early[command.target].append(command)
                return
            self._seen[command.id] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        self._answer(command)

    def admitted(self, job: str) -> None:
        """The job is in the book now, or has failed at once: execute what was wished of it before."""
        with self._lock:
            early = self._early.pop(job, [])
        for command in early:
            self.execute(command)

    def _is_known(self, job: str) -> bool:
        return self._book.has(job) or self._has_ended(job)

    def _has_ended(self, job: str) -> bool:
        return self._tracker.read(lambda state: state.get(Entity.JOB, job).state) in JOB_ENDS

    def _answer(self, command: EngineCommand) -> None:
        if not self._tracker.command(command, Command.TAKEN):
            return
        try:
            outcome = self._outcome(command)
        except CuzkError as error:
            self._tracker.command(command, Command.REFUSED, str(error))
        else:
            if outcome is not None:
                self._tracker.command(command, Command.DONE, outcome)

    def _outcome(self, command: EngineCommand) -> str | None:
        """None: it is not this session's to execute any more."""
        if command.action == Action.CANCEL:
            return self._cancel(command)
        if command.action not in _OUTCOMES:
            raise CommandRefused(f"no such action: {command.action!r}", field="action")
        if command.target not in self._workers:
            raise CommandRefused(f"no such worker here: {command.target!r}", field="target")
        if command.action == Action.RESTART:
            self._workers[command.target]()
            return _OUTCOMES[command.action]
        return self._wish(command)

    def _wish(self, command: EngineCommand) -> str:
        wanted = WISHES[command.action]
        admin = self._tracker.read(lambda state: state.admin(command.target))
        if admin == wanted:
            return f"was {admin} already"
        refusal = action_refusal(command.action, admin)
        if refusal is not None:
            raise CommandRefused(refusal, field="action")
        if not self._tracker.set_admin(command.target, wanted, by=command.by):
            raise CommandRefused(f"it cannot become {wanted.value} now", field="action")
        self._changed()
        return _OUTCOMES[command.action]

    def _cancel(self, command: EngineCommand) -> str | None:
        if self._book.cancel(command.target, by=command.by):
            return "cancelled: what is on a device runs out and is dropped"
        if self._has_ended(command.target):
            raise CommandRefused("it had ended before", field="target")
        return None
