"""What rules can look for, and with which figures each begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """How loud an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"


class Condition(StrEnum):
    """Of a rule."""

    FAILED_JOB = "failed_job"
    LOST_PROVER = "lost_prover"
    STUCK_WORKER = "stuck_worker"
    DEADLINE_AT_RISK = "deadline_at_risk"
    DEADLINE_MISSED = "deadline_missed"
    ANOMALY = "anomaly"
    QUEUE_AGE = "queue_age"
    OUT_OF_MEMORY = "out_of_memory"
    CPU_FALLBACK = "cpu_fallback"
    QUARANTINED_WORKER = "quarantined_worker"
    REFUSED_PROOF = "refused_proof"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Words and figures of a condition; its seconds is None when it has no time of its own."""

    name: str
    text: str
    severity: Severity
    seconds: int | None = None
    settle_s: int = 30  # an alert is closed when its condition has not been true for so long


_EVENT_S: Final = 15 * 60  # what happens at a moment is over when it has not happened again for so long

MEANINGS: Final[Mapping[Condition, Meaning]] = {
    Condition.FAILED_JOB: Meaning(
        "Failed jobs", "jobs failed; one alert a kind and error code", Severity.CRITICAL, settle_s=_EVENT_S
    ),
    Condition.LOST_PROVER: Meaning(
        "Lost prover", "a prover was lost within the last day, or one that lives lost a device or a worker",
        Severity.CRITICAL,
    ),
    Condition.STUCK_WORKER: Meaning(
        "No progress", "a partition has been in one phase for longer than its seconds and than 5 times its usual length"
        " (where that is not known: 5 times its seconds), or a prover lives and its engine does not answer",
        Severity.CRITICAL, 120,
    ),
    Condition.DEADLINE_AT_RISK: Meaning(
        "Deadline at risk", "an open job's deadline is nearer than its seconds, or than its partitions usually take",
        Severity.CRITICAL, 300,
    ),
    Condition.DEADLINE_MISSED: Meaning(
        "Deadline missed", "a job was not done by its deadline", Severity.CRITICAL, settle_s=_EVENT_S
    ),
    Condition.ANOMALY: Meaning(
        "Anomalies", "a move was refused, or the page and what is recorded differ; one alert a code",
        Severity.WARNING, settle_s=_EVENT_S,
    ),
    Condition.QUEUE_AGE: Meaning(
        "Old queue", "a job has waited in the queue for longer than its seconds; one alert a kind", Severity.WARNING,
        1800,
    ),
    Condition.OUT_OF_MEMORY: Meaning(
        "Out of memory", "attempts failed for want of memory; one alert a device", Severity.CRITICAL, settle_s=_EVENT_S
    ),
    Condition.CPU_FALLBACK: Meaning(
        "Proving on the CPU", "a prover that had a GPU within the last 30 days proves on the CPU", Severity.WARNING
    ),
    Condition.QUARANTINED_WORKER: Meaning(
        "Quarantined worker", "a worker is in quarantine until somebody releases it", Severity.WARNING
    ),
    Condition.REFUSED_PROOF: Meaning(
        "Refused proofs", "proofs that were made did not verify; one alert a device", Severity.CRITICAL,
        settle_s=_EVENT_S,
    ),
}  # fmt: skip
