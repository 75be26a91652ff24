"""Counts what happened in this process, over all its sessions: a sink of the tracker. What is counted never falls."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from prover.states import ATTEMPT_ENDS, JOB_ENDS, Entity, Job, Refused, Transition

#: seconds: from a phase of the smallest circuit to a job of the largest
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600)

disable_created_metrics()  # type: ignore[no-untyped-call]  # no second series for each, of when its count began


class Meters:
    """Thread-safe; `sink` returns at once."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.jobs: Tally[tuple[str, str]] = Tally()  # (kind, how it ended)
        self.proof_seconds: Tally[str] = Tally()  # kind -> of the jobs that were done
        self._kind_of: Callable[[str], str] = lambda job: "unknown"
        self._since: dict[str, tuple[str, int]] = {}  # attempt -> its state, and since when
        self._ended = Counter("cuzk_jobs_ended", "Jobs that ended here.", ["kind", "outcome"], registry=registry)
        self._job_seconds = Histogram(
            "cuzk_job_duration_seconds", "From submission to the end of a job.", ["kind"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._phase_seconds = Histogram(
            "cuzk_phase_duration_seconds", "How long attempts stayed in each state.", ["phase", "kind"],
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._anomalies = Counter("cuzk_anomalies", "Moves that were refused.", ["anomaly"], registry=registry)
        self._moves = Counter("cuzk_transitions", "Moves that were made.", registry=registry)
        self._calls = Counter("cuzk_grpc_calls", "Calls that were answered.", ["method", "code"], registry=registry)

    def use(self, kind_of: Callable[[str], str]) -> None:
        """A new session: attempts of the last one are heard of no more. `kind_of` gives a job's kind, in the sink."""
        self._since, self._kind_of = {}, kind_of

    def sink(self, made: Transition | Refused) -> None:
        """Count a move, or one that was refused."""
        if isinstance(made, Refused):
            self._anomalies.labels(made.anomaly).inc()
            return
        self._moves.inc()
        if made.entity is Entity.ATTEMPT:
            self._count_phase(made)
        elif made.entity is Entity.JOB and made.new in JOB_ENDS:
            self._count_job(made)

    def answered(self, method: str, code: str) -> None:
        """A call over gRPC was answered."""
        self._calls.labels(method, code).inc()

    def ended(self, outcome: Job) -> dict[str, int]:
        """How many jobs of each kind ended so."""
        return {kind: count for (kind, end), count in sorted(self.jobs.copy().items()) if end == outcome}

    def _count_phase(self, made: Transition) -> None:
        state, since_us = self._since.pop(made.entity_id, ("", 0))
        if state:
            seconds = max(0, made.at_us - since_us) / 1e6
            self._phase_seconds.labels(state, self._kind_of(made.job or "")).observe(seconds)
        if made.new not in ATTEMPT_ENDS:
            self._since[made.entity_id] = (made.new, made.at_us)

    def _count_job(self, made: Transition) -> None:
        kind = str(made.detail.get("kind", "unknown"))
        seconds = made.detail.get("timings", {}).get("total_ms", 0) / 1000
        self.jobs[kind, made.new] += 1
        self._ended.labels(kind, made.new).inc()
        if made.new == Job.DONE:
            self.proof_seconds[kind] += seconds
            self._job_seconds.labels(kind).observe(seconds)
