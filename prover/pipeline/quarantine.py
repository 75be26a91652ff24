"""Workers that fail again and again are taken out of work until a person releases them."""

from __future__ import annotations

import threading
from collections import Counter

import structlog

from ..errors import describe
from ..states import Admin
from .kinds import ProofRefused
from .retry import QUARANTINE_AFTER, rule_of
from .tracker import StatusTracker

log = structlog.get_logger(__name__)


class Quarantine:
    """Counts failures in a row by worker. Thread-safe.

    A proof that verifies ends the row. All failures of one job do not suffice: they may be the job's doing, and then
    one poisoned job would take a prover's only worker from all others.
    """

    def __init__(self, tracker: StatusTracker, after: int = QUARANTINE_AFTER) -> None:
        """Who fails `after` times in a row, in two jobs at least, is quarantined."""
        self._tracker = tracker
        self._after = after
        self._rows: dict[str, list[str]] = {}  # worker -> the jobs of its failures in a row
        self._refused: Counter[str] = Counter()
        self._quarantined = 0
        self._lock = threading.Lock()

    def failed(self, worker: str | None, job: str, error: BaseException) -> bool:
        """An attempt of the worker failed; whether it is quarantined for it. `job` is empty when it had none."""
        rule = rule_of(error)
        if worker is None or rule is None or not rule.blames:
            return False
        with self._lock:
            if isinstance(error, ProofRefused):
                self._refused[worker.rpartition("/")[0]] += 1
            row = self._rows.setdefault(worker, [])
            row.append(job)
            if len(row) < self._after or len({*row} - {""}) + ("" in row) * 2 < 2:
                return False
            count = len(self._rows.pop(worker))
            self._quarantined += 1
        return self._quarantine(worker, error, count)

    def proved(self, worker: str | None) -> None:
        """A proof of the worker was verified."""
        with self._lock:
            self._rows.pop(worker or "", None)

    def counts(self) -> dict[str, object]:
        """Gauges: workers that were quarantined in this session, and proofs that were refused, by device."""
        with self._lock:
            return {"quarantines": self._quarantined, "self_check_failures": dict(self._refused)}

    def _quarantine(self, worker: str, error: BaseException, count: int) -> bool:
        code, text = describe(error)
        log.error("worker quarantined", worker=worker, failures=count, reason=code, error=text)
        detail = {"failures": count, "error": text}
        return self._tracker.set_admin(worker, Admin.QUARANTINED, by="system", reason=code, detail=detail)
