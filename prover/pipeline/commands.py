"""What people ask of the engine: each command is executed once and answered by a transition of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from ..errors import CommandRefused, CuzkError
from ..states import WISHES, Action, Command, action_refusal
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
        self._seen: OrderedDict[str, None] = OrderedDict()

    def execute(self, command: EngineCommand) -> None:
        """Do it and answer; what was executed already is left alone."""
        if command.id in self._seen:
            return
        self._seen[command.id] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if not self._tracker.command(command, Command.TAKEN):
            return
        try:
            outcome = self._outcome(command)
        except CuzkError as error:
            self._tracker.command(command, Command.REFUSED, str(error))
        else:
            self._tracker.command(command, Command.DONE, outcome)

    def _outcome(self, command: EngineCommand) -> str:
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

    def _cancel(self, command: EngineCommand) -> str:
        if not self._book.cancel(command.target, by=command.by):
            raise CommandRefused(f"no such job is open here: {command.target!r}", field="target")
        return "cancelled: what is on a device runs out and is dropped"
