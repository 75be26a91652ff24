"""What this process holds of keys and programs, told to the session that is current.

Keys and tables outlive a session: a session that succeeds a lost one is told at its start what is there, and what a
thread of an earlier session still loads is told to the present one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ..states import Holding, JsonObject
from .tracker import StatusTracker

#: told to a new session; what has failed is tried again when it is needed, and told then
_LASTING = frozenset({Holding.LOADING, Holding.COMPILING, Holding.READY})


@dataclass(frozen=True, slots=True)
class _Said:
    state: Holding
    detail: JsonObject
    reason: str | None


class Holdings:
    """A `kinds.Report` for as long as the process lives. Thread-safe; every call returns at once."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}
        self._tracker: StatusTracker | None = None
        self._listener: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    def use(self, tracker: StatusTracker) -> None:
        """From now on `tracker` hears of everything; first, of what is there or on its way."""
        with self._lock:
            self._tracker = tracker
            for name, said in self._said.items():
                if said.state in _LASTING:
                    tracker.holding(name, said.state, said.detail, reason=said.reason)

    def listen(self, listener: Callable[[], object]) -> None:
        """From now on `listener`, and nobody else, hears when a load has ended; it must return at once."""
        self._listener = listener

    def ended(self) -> None:
        """A load has ended, and who waits for its key may go on."""
        self._listener()

    def __call__(self, name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> object:
        """Something is being loaded or compiled, is ready, or failed."""
        with self._lock:
            self._said[name] = _Said(state, detail, reason)
            return self._tracker is not None and self._tracker.holding(name, state, detail, reason=reason)
