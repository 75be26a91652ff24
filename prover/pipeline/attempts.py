"""The name of one attempt, and the order in which attempts are taken from every queue."""

from __future__ import annotations

from dataclasses import dataclass

from ..states import attempt_id
from .sources import JobInfo

#: a deadline that sorts after all others
NO_DEADLINE = 2**63
HIGH, CRITICAL = 3, 4  # priorities


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """One attempt at one partition (from 0) of one job; attempts count from 1."""

    job: str
    partition: int = 0
    number: int = 1

    @property
    def id(self) -> str:
        """The identity that the event log uses."""
        return attempt_id(self.job, self.partition, self.number)


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """Sorts by priority (highest first), deadline, order of submission, partition. The job's id only breaks ties."""

    urgency: int
    deadline_us: int
    number: int
    partition: int
    job: str


def order(info: JobInfo, partition: int = 0) -> Order:
    """The place of a job's partition in every queue. One that has aged is the first of those of high priority."""
    if info.aged and info.priority < HIGH:
        return Order(-HIGH, 0, info.number, partition, info.id)
    deadline = NO_DEADLINE if info.deadline_us is None else info.deadline_us
    return Order(-info.priority, deadline, info.number, partition, info.id)
