"""What the service may look at: the session that is current, and what the process knows beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from prover.filecoin.circuit_ids import id_of_key
from prover.journal.journal import Journal
from prover.memory import memory
from prover.pipeline.budget import BudgetFigures
from prover.pipeline.devices import Device
from prover.pipeline.keys import KeyManager, KeyRow
from prover.pipeline.tracker import StatusTracker
from prover.states import FleetState, Job
from prover.status import Moment, status

from .meters import Meters

MEMORY_S = 1.0
TICK_S = 10.0  # an engine that was heard of longer ago does not respond; its loop ticks every second


@dataclass(frozen=True, slots=True)
class _Session:
    tracker: StatusTracker
    journal: Journal


class Live:
    """Thread-safe; every call returns at once. Between two sessions the last one is shown."""

    def __init__(
        self, prover: str, version: str, devices: Sequence[Device], meters: Meters, keys: KeyManager | None = None
    ) -> None:  # fmt: skip
        self.prover, self.version, self.meters = prover, version, meters
        self.devices = tuple(devices)
        self._keys = keys
        self._memory: tuple[float, dict[str, int]] = (float("-inf"), {})
        self.draining = False
        self._session: _Session | None = None
        self._started = time.monotonic()
        self._ticked = time.monotonic()
        self._process = psutil.Process()

    def use(self, tracker: StatusTracker, journal: Journal) -> None:
        """A session begins."""
        self.meters.use(tracker.kind_of)
        self._session = _Session(tracker, journal)

    def tick(self) -> None:
        """The engine's own loop runs."""
        self._ticked = time.monotonic()

    @property
    def uptime_s(self) -> float:
        """Seconds since the process began to serve."""
        return time.monotonic() - self._started

    def now_us(self) -> int:
        """By the database's clock, as well as it is known."""
        return time.time_ns() // 1000 if self._session is None else self._session.tracker.clock.read_us()

    def state(self) -> FleetState:
        """The tracker's state of this moment: the fold that the page shows too, at the same seq."""
        return FleetState() if self._session is None else self._session.tracker.snapshot()

    def moment(self) -> Moment:
        """The state, as of which time by the database's clock, with the gauges of now."""
        if self._session is None:
            return Moment(FleetState(), "", self.now_us(), self.gauges(), counts=self._counts())
        tracker = self._session.tracker
        return Moment(tracker.snapshot(), tracker.session, self.now_us(), self.gauges(), counts=self._counts())

    def status(self) -> dict[str, Any]:
        """GET /status."""
        found = status(self.moment())
        found.update({"prover": self.prover, "version": self.version, "uptime_secs": self.uptime_s})
        if self._keys is not None:
            found["allocations"] = allocations(self._keys.loaded())
        return found

    def keys(self) -> tuple[KeyRow, ...]:
        """The keys that are held or on their way."""
        return () if self._keys is None else self._keys.loaded()

    def budget(self) -> BudgetFigures:
        """The memory budget."""
        return BudgetFigures(0, 0, 0, 0, 0) if self._keys is None else self._keys.budget.figures()

    def depths(self) -> Mapping[str, int]:
        """Jobs that wait in the database for any prover, by kind, as of the journal's last look."""
        return {} if self._session is None else self._session.journal.depths()

    def gauges(self) -> dict[str, Any]:
        """Memory, the journal, and what tracking costs."""
        found: dict[str, Any] = {
            **self._read_memory(), **self.budget().gauges(), "queue_depth": sum(self.depths().values()),
            "trouble": "database_away",
        }  # fmt: skip
        if self._session is not None:
            tracker, journal = self._session.tracker, self._session.journal
            found |= {
                "tracker_calls": tracker.calls, "tracker_ms": tracker.spent_ns // 1_000_000,
                "journal_waiting": journal.waiting, "trouble": journal.trouble,
            }  # fmt: skip
        return found

    def reasons(self) -> list[str]:
        """Why this prover would not take work now; empty when it would. Codes and words, without secrets."""
        trouble = "no_session" if self._session is None else self._session.journal.trouble
        found = [] if trouble is None else [f"journal: {trouble}"]
        silent = time.monotonic() - self._ticked
        if self._session is not None and silent > TICK_S:
            found.append(f"engine: its loop was heard of {silent:.0f} s ago")
        return [*found, *(["draining"] if self.draining else [])]

    def _read_memory(self) -> dict[str, int]:
        """Of the process and of the machine, read anew once a second at most."""
        read_at, found = self._memory
        if time.monotonic() - read_at > MEMORY_S:
            room = memory()
            found = {
                "rss_bytes": self._process.memory_info().rss, "memory_total_bytes": room.total,
                "memory_available_bytes": room.available,
            }  # fmt: skip
            self._memory = (time.monotonic(), found)
        return found

    def _counts(self) -> dict[str, dict[str, int]]:
        return {"completed": self.meters.ended(Job.DONE), "failed": self.meters.ended(Job.FAILED)}


def allocations(rows: Sequence[KeyRow]) -> dict[str, list[dict[str, Any]]]:
    """Keys and recorded circuits in the original's words; what is in use was used 0 seconds ago."""
    return {"srs": [_held(row, row.nbytes) for row in rows], "pce": [_held(row, row.circuit_nbytes) for row in rows]}


def _held(row: KeyRow, nbytes: int) -> dict[str, Any]:
    return {
        "circuit_id": id_of_key(row.name) or row.name, "bytes": nbytes,
        "last_used_secs_ago": 0.0 if row.idle_s is None and row.refs else row.idle_s, "evictable": row.evictable,
        "name": row.label, "phase": row.state, "refs": row.refs, "pinned": row.pinned, "tier": row.tier,
    }  # fmt: skip
