"""What people ask of the engine: each command is executed once and answered by a transition of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from ..errors import CommandRefused, CuzkError
from ..states import Admin, Command
from .jobs import JobBook
from .sources import EngineCommand
from .tracker import StatusTracker

_REMEMBERED = 10_000  # executed ids: a command that is handed over again is not executed again

_WISHES: Mapping[str, tuple[Admin, str]] = {
    "pause": (Admin.PAUSED, "paused: it finishes what it does and takes nothing new"),
    "drain": (Admin.DRAINING, "draining: it takes nothing new; drained once its last tail is finished"),
    "resume": (Admin.ENABLED, "takes work again"),
    "enable": (Admin.ENABLED, "takes work again"),
    "disable": (Admin.DISABLED, "disabled: it finishes what it does and takes nothing new"),
}


class Commands:
    """Executes commands. `changed` is called when a worker may take work now that could not before, or the reverse."""

    def __init__(
        self, tracker: StatusTracker, book: JobBook, workers: frozenset[str], changed: Callable[[], None]
    ) -> None:
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
        if command.action in _WISHES:
            return self._wish(command)
        if command.action == "cancel":
            return self._cancel(command)
        raise CommandRefused(f"no such action: {command.action!r}", field="action")

    def _wish(self, command: EngineCommand) -> str:
        if command.target not in self._workers:
            raise CommandRefused(f"no such worker here: {command.target!r}", field="target")
        admin, outcome = _WISHES[command.action]
        if self._tracker.read(lambda state: state.admin(command.target)) == admin:
            return f"was {admin.value} already"
        if not self._tracker.set_admin(command.target, admin, by=command.by):
            raise CommandRefused(f"the worker cannot become {admin.value} now: resume or disable it", field="action")
        self._changed()
        return outcome

    def _cancel(self, command: EngineCommand) -> str:
        if not self._book.cancel(command.target, by=command.by):
            raise CommandRefused(f"no such job is open here: {command.target!r}", field="target")
        return "cancelled: what is on a device runs out and is dropped"
