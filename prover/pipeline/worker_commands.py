"""What people ask of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import CommandRefused
from ..states import WISHES, Action, action_refusal
from .sources import EngineCommand
from .tracker import StatusTracker

_OUTCOMES: Mapping[str, str] = {
    Action.PAUSE: "paused: it finishes what it does and takes nothing new",
    Action.RESUME: "takes work again",
    Action.DRAIN: "draining: it takes nothing new; drained once its last tail is finished",
    Action.DISABLE: "disabled: it finishes what it does and takes nothing new until it is enabled",
    Action.ENABLE: "takes work again",
    Action.RESTART: "starts again in a new thread, with the next epoch, once it has finished what it does",
}


class WorkerCommands:
    """Executes them. `changed` is called when a worker may take work now that could not before, or the reverse.

    `workers` are those of this session by their ids, each with what makes it start again.
    """

    def __init__(
        self, tracker: StatusTracker, workers: Mapping[str, Callable[[], None]], changed: Callable[[], None]
    ) -> None:
        self._tracker = tracker
        self._workers = workers
        self._changed = changed

    def __call__(self, command: EngineCommand) -> str:
        """The outcome. Raises CommandRefused."""
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
