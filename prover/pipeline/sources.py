"""What the engine needs of the world outside: jobs to prove, a place for proofs, commands. The journal provides them.

Every transition reaches the journal through the tracker's sinks, in order; these carry what is no transition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..states import JsonObject, Target


@dataclass(frozen=True, slots=True)
class JobInfo:
    """What is known of a job from its submission. Times in microseconds by the database's clock."""

    id: str  # UUID as text
    kind: str  # window-post, winning-post
    partitions: int = 1
    request_id: str = ""
    number: int = 0  # order of submission, from 1
    sector_size: int = 0
    priority: int = 2  # 4 critical, 3 high, 2 normal, 1 low
    deadline_us: int | None = None
    partition_index: int = 0
    miner_id: int | None = None
    sector_number: int | None = None
    submitted_by: str = ""
    queued_at_us: int | None = None  # time of its last transition when somebody else queued it; None: the tracker does
    submitted_at_us: int | None = None
    aged: bool = False  # it waited so long that it counts as high (`turns`)

    def detail(self) -> JsonObject:
        """The part that the event log carries."""
        return {
            "request_id": self.request_id, "kind": self.kind, "number": self.number, "sector_size": self.sector_size,
            "priority": self.priority, "deadline_us": self.deadline_us, "partitions": self.partitions,
            "partition_index": self.partition_index, "miner_id": self.miner_id, "sector_number": self.sector_number,
            "submitted_by": self.submitted_by,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class PriorAttempt:
    """The last attempt at a partition in earlier sessions."""

    number: int
    state: str  # a word of `states.Attempt`; terminal


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job leased to this session, with what earlier sessions left of it."""

    info: JobInfo
    request: bytes  # SubmitProofRequest in protobuf
    proofs: Mapping[int, bytes] = field(default_factory=dict)  # partition -> its verified proof (192 bytes)
    attempts: Mapping[int, PriorAttempt] = field(default_factory=dict)  # partition -> its last attempt
    losses: int = 0  # how many sessions were lost while they held it


class JobSource(Protocol):
    """Where jobs come from. Called by the engine's own loop alone."""

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        """Lease up to `limit` queued jobs of at least `min_priority`, best first (`attempts.Order`).

        Empty when there are none, when the database is away, or when nothing could be stored durably now. It may take
        one round trip to the database, bounded in time; it never raises. The tracker hears of the jobs from the engine.
        """

    def claim_oldest(self, max_priority: int, waited_s: float) -> Sequence[ClaimedJob]:
        """Lease the oldest queued job of at most `max_priority` that was submitted `waited_s` ago or earlier, if any.

        As `claim` otherwise.
        """

    def depth(self) -> int | None:
        """How many jobs are queued, as of the last look; None when unknown. No round trip."""


class ResultStore(Protocol):
    """Where proofs go. Calls return at once; what is put before a transition is durable no later than it."""

    def put_proof(self, job: str, partition: int, attempt_no: int, proof: bytes) -> None:
        """Keep a verified proof of one partition (192 bytes); once, whatever became of its attempt."""

    def put_delivery(self, job: str, proof: bytes) -> None:
        """Keep the assembled, verified proof of a job; the job's `done` follows."""


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """What a person asked for: an action of `states.ACTIONS`, of what `kind` (a word of `states.Target`) says."""

    id: str  # UUID as text
    action: str
    target: str  # the stable identity of the worker, the job's id, prover:NAME of a key, the name of the prover
    by: str = ""
    at_us: int = 0  # when it was asked for
    arguments: JsonObject = field(default_factory=dict)
    kind: str = Target.WORKER


class EngineControl(Protocol):
    """What the journal calls; from any thread, quick."""

    def wake(self) -> None:
        """There may be something to claim."""

    def command(self, command: EngineCommand) -> None:
        """Execute and answer: the answer is the command's transition to done or refused, `outcome` in its detail.

        A command that was executed already (same id) is not executed again.
        """

    def result_arrived(self, job: str, partition: int, proof: bytes) -> None:
        """A verified proof of a partition came from elsewhere: the attempt at it that is open now is skipped."""

    def session_lost(self, reason: str) -> None:
        """The lease is gone: stop at once, write nothing more in the name of this session."""
