"""The bridge: look at a daemon, write what is certain, again and again, whatever the daemon or the database do."""

from __future__ import annotations

import logging
import threading
from typing import Final

import psycopg

from prover.errors import CuzkError

from .fetch import Daemon
from .observer import Observer
from .status import Status
from .store import Store, WatchLost

log = logging.getLogger(__name__)

EVERY_S: Final = 1.0
TROUBLE_S: Final = 5.0  # after the database refused


class Bridge:
    """Watches one daemon under a name. `look` is one look; `run` looks until it is ended."""

    def __init__(self, daemon: Daemon, source: str) -> None:
        self._daemon, self.source = daemon, source
        self._store: Store | None = None
        self._observer: Observer | None = None
        self.trouble = ""  # what keeps the daemon from being seen now

    def run(self, ended: threading.Event, every_s: float = EVERY_S) -> None:
        """Raises WatchedTwice, NameInvalid."""
        wait = 0.0
        try:
            while not ended.wait(wait):
                wait = every_s if self._looked() else TROUBLE_S
        finally:
            self.close()

    def _looked(self) -> bool:
        """Look; False when the database could not be written."""
        try:
            self.look()
        except psycopg.Error as error:
            log.warning("the database cannot be written: %s", str(error).strip())
            self._forget()
            return False
        return True

    def look(self) -> None:
        """One look. What keeps the daemon from being seen is `trouble`, and its session's lease runs out by itself."""
        store = self._store = self._store or Store(self.source)
        store.mark_lost()
        try:
            status = self._daemon.status()
        except CuzkError as error:
            self._say(f"{error} [{error.code}]")
            return
        self._say("")
        self._restart(store, status)
        try:
            self._write(store, status)
        except WatchLost:
            self._observer = None
            self._write(store, status)

    def close(self) -> None:
        """Nobody watches any more: the session is over, its jobs are found again by the next."""
        if self._store is not None and self._observer is not None:
            try:
                self._store.end(self._observer.session, "no_longer_watched")
            except psycopg.Error as error:
                log.warning("the session could not be ended: %s", str(error).strip())
        self._forget()

    def _restart(self, store: Store, status: Status) -> None:
        """The daemon was started anew: its jobs end, and its session."""
        observer = self._observer
        if observer is None or not observer.restarted(status):
            return
        self._observer = None
        observer.end(store.now_us())
        try:
            moved, odd = observer.take()
            store.write(observer.session, observer.state, moved, odd, {})
        except WatchLost:
            pass
        store.end(observer.session, "daemon_restarted")

    def _write(self, store: Store, status: Status) -> None:
        """Observe and write; a write that failed leaves no observer behind that knows more than the database."""
        observer, self._observer = self._observer, None
        if observer is None:
            session = store.begin(self._daemon.host)
            observer = Observer(session, self.source, self._daemon.host, lambda one: store.queue(session, one))
        observer.observe(status, store.now_us())
        moved, odd = observer.take()
        gauges = {
            "rss_bytes": status.memory_used, "memory_total_bytes": status.memory_total,
            "queue_depth": status.queue_depth, "synth_active": status.synth_active,
        }  # fmt: skip
        store.write(observer.session, observer.state, moved, odd, gauges)
        self._observer = observer

    def _say(self, trouble: str) -> None:
        """Once, when it begins and when it is over."""
        if trouble != self.trouble:
            log.warning("%s: %s", self.source, trouble or "it answers again")
        self.trouble = trouble

    def _forget(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._observer = None
