"""What people ask of keys: preload, evict, pin, unpin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ..errors import CommandRefused, CuzkError, describe
from ..states import Action, Command
from .budget import in_words
from .keys import KeyManager
from .sources import EngineCommand
from .tracker import StatusTracker


class KeyCommands:
    """Executes them. A preload is answered when the key is there; nobody waits for it."""

    def __init__(self, tracker: StatusTracker, keys: KeyManager) -> None:
        self._tracker, self._keys = tracker, keys
        self._actions: Mapping[str, Callable[[str], str]] = {
            Action.PRELOAD: self._preload, Action.EVICT: self._evict, Action.PIN: self._pin, Action.UNPIN: self._unpin,
        }  # fmt: skip

    def __call__(self, command: EngineCommand) -> str | None:
        """The outcome; None: it will be answered later. Raises CommandRefused."""
        name = command.target.partition(":")[2]
        if command.action in (Action.PRELOAD, Action.EVICT):  # they may take long
            threading.Thread(target=self._later, args=(command, name), name="key-command", daemon=True).start()
            return None
        return self._outcome(command.action, name)

    def _later(self, command: EngineCommand, name: str) -> None:
        try:
            outcome = self._outcome(command.action, name)
        except Exception as error:
            self._tracker.command(command, Command.REFUSED, describe(error)[1])
        else:
            self._tracker.command(command, Command.DONE, outcome)

    def _outcome(self, action: str, name: str) -> str:
        try:
            return self._actions[action](name)
        except CuzkError as error:
            raise CommandRefused(f"{error} [{error.code}]") from error

    def _preload(self, name: str) -> str:
        already, milliseconds = self._keys.preload(name)
        return "was loaded already" if already else f"loaded in {milliseconds / 1000:.1f} s"

    def _evict(self, name: str) -> str:
        was_loaded, freed = self._keys.evict(name)
        return f"evicted: {in_words(freed)} are free" if was_loaded else "was not loaded"

    def _pin(self, name: str) -> str:
        return "pinned: it stays" if self._keys.pin(name) else "pinned: it stays once it is loaded"

    def _unpin(self, name: str) -> str:
        self._keys.pin(name, pinned=False)
        return "unpinned: it may be evicted when it is idle"
