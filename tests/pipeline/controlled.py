"""A kind of proof whose steps are opened by the test, one by one: the engine's threads without their arithmetic.

Its "proofs" are marks that name job and partition, so that a wrong, lost or misplaced one is found. It stands at the
boundary of `Kind`: everything before it is the real engine.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prover.pipeline.allocator import DeviceInfo
from prover.pipeline.attempts import Order
from prover.pipeline.budget import Claim, MemoryBudget
from prover.pipeline.devices import Device, Observation
from prover.pipeline.engine import Engine, EngineOptions
from prover.pipeline.holdings import Holdings
from prover.pipeline.keys import KeyManager
from prover.pipeline.kinds import AnyKind, Lease, ProofRefused, Report
from prover.pipeline.sources import ClaimedJob, EngineCommand, JobInfo
from prover.pipeline.tracker import StatusTracker
from prover.states import JOB_ACTIONS, Entity, FleetState, Holding, Refused, Target, Transition

PATIENCE_S = 30.0  # after this a test has failed; nothing is timed


class Died(BaseException):
    """Ends a thread, as no ordinary error does."""


@dataclass(frozen=True)
class Part:
    """The work of one partition."""

    job: str
    partition: int


def mark(part: Part) -> bytes:
    """The 192 bytes that stand for a partition's proof."""
    digest = hashlib.sha256(f"{part.job} {part.partition}".encode()).digest()
    return digest * 6


class Gate:
    """A place where a step waits: the test sees it arrive, and lets it pass or fail."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self._opened = threading.Event()
        self._error: BaseException | None = None

    def await_arrival(self) -> None:
        """Wait until the step is there."""
        assert self.arrived.wait(PATIENCE_S), "the step was never reached"

    def open(self, error: BaseException | None = None) -> None:
        """Let it pass, or raise."""
        self._error = error
        self._opened.set()

    def pass_through(self) -> None:
        """Called by the step."""
        self.arrived.set()
        assert self._opened.wait(PATIENCE_S), "the gate was never opened"
        if self._error is not None:
            raise self._error


class ControlledKind:
    """Steps run through unless they have a gate; `errors` makes a step fail as often as there are entries."""

    name = "controlled"

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str, int], Gate] = {}
        self.errors: dict[tuple[str, str, int], list[BaseException]] = defaultdict(list)
        self.order: list[tuple[str, str, int]] = []
        self.refuse_delivery = False
        self.needs: dict[str, int] = {}  # bytes by phase, of each attempt

    def gate(self, step: str, job: str, partition: int = 0) -> Gate:
        """Make the step of this partition wait."""
        return self._gates.setdefault((step, job, partition), Gate())

    def _step(self, step: str, part: Part) -> None:
        key = (step, part.job, part.partition)
        self.order.append(key)
        if self.errors[key]:
            raise self.errors[key].pop(0)
        gate = self._gates.get(key)
        if gate is not None:
            gate.pass_through()

    def load(self, request: bytes) -> Sequence[Part]:
        value = json.loads(request)
        parts = [Part(value["job"], partition) for partition in range(value["partitions"])]
        self._step("load", parts[0])
        return parts

    def lease(self, work: Part) -> Lease:
        self._step("lease", work)
        return Lease()

    def claim(self, work: Part, owner: str, order: Order) -> Claim:
        return Claim(owner, order, self.needs)

    def has_local_keys(self, work: Part) -> bool:
        return True

    def synthesize(self, work: Part, report: Report) -> Part:
        self._step("synthesize", work)
        return work

    def prepare(self, work: Part, device: Device, report: Report) -> None:
        self._step("prepare", work)
        report("key:controlled", Holding.LOADING, {"name": "controlled", "device": device.ordinal})
        report("key:controlled", Holding.READY, {"name": "controlled", "device": device.ordinal})

    def start(self, work: Part, synthesized: Part, device: Device) -> Part:
        assert synthesized == work
        self._step("start", work)
        return work

    def finish(self, pending: Part) -> bytes:
        self._step("finish", pending)
        return mark(pending)

    def verify(self, work: Part, proof: bytes) -> None:
        self._step("verify", work)
        if proof != mark(work):
            raise ProofRefused()

    def verify_delivery(self, works: Sequence[Part], proof: bytes) -> None:
        self._step("verify_delivery", works[0])
        if self.refuse_delivery or proof != b"".join(mark(work) for work in works):
            raise ProofRefused()


class MemorySource:
    """Jobs that the test gives, most urgent first."""

    def __init__(self) -> None:
        self.jobs: list[ClaimedJob] = []
        self._lock = threading.Lock()

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        with self._lock:
            fit = sorted(
                (job for job in self.jobs if job.info.priority >= min_priority),
                key=lambda job: (-job.info.priority, job.info.number),
            )[:limit]
            self.jobs = [job for job in self.jobs if job not in fit]
            return fit

    def claim_oldest(self, max_priority: int, waited_s: float) -> Sequence[ClaimedJob]:
        with self._lock:
            fit = [job for job in self.jobs if job.info.priority <= max_priority][:1]
            self.jobs = [job for job in self.jobs if job not in fit]
            return fit

    def depth(self) -> int | None:
        return len(self.jobs)


@dataclass
class MemoryResults:
    """Proofs and deliveries, and how often each came."""

    proofs: dict[tuple[str, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    deliveries: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def put_proof(self, job: str, partition: int, attempt_no: int, proof: bytes) -> None:
        self.proofs[job, partition].append(proof)

    def put_delivery(self, job: str, proof: bytes) -> None:
        self.deliveries[job].append(proof)


def claimed(job: str, partitions: int = 1, **more: object) -> ClaimedJob:
    """A job for the controlled kind."""
    fields = {name: more.pop(name) for name in ("proofs", "attempts", "losses") if name in more}
    info = JobInfo(job, "controlled", partitions, request_id=f"request-{job}", **more)  # type: ignore[arg-type]
    request = json.dumps({"job": job, "partitions": partitions}).encode()
    return ClaimedJob(info, request, **fields)  # type: ignore[arg-type]


class Rig:
    """An engine on a controlled kind, with everything that it said."""

    def __init__(
        self, *, devices: int | Sequence[Device] = 1, kinds: dict[str, AnyKind] | None = None,
        holdings: Holdings | None = None, budget: MemoryBudget | None = None,
        keys: KeyManager | None = None, session: str = "session", **options: object,
    ) -> None:  # fmt: skip
        self.kind = ControlledKind()
        self.source = MemorySource()
        self.results = MemoryResults()
        self.log: list[Transition] = []
        self.anomalies: list[Refused] = []
        self.truth: list[Observation] = []
        self._said = threading.Condition()
        options.setdefault("backoff_s", 0.0)
        self.tracker = StatusTracker(session, "prover", sinks=[self._sink])
        self.devices = list(devices) if not isinstance(devices, int) else [
            Device(DeviceInfo("prover", n, f"device {n}", "test"), n, self.truth.append) for n in range(devices)
        ]  # fmt: skip
        self.engine = Engine(
            self.tracker, self.devices, kinds or {"controlled": self.kind}, self.source, self.results,
            EngineOptions(**options), holdings=holdings, budget=budget, keys=keys,  # type: ignore[arg-type]
        )  # fmt: skip
        self._numbers = 0

    def __enter__(self) -> Rig:
        self.engine.start({"prover": "prover"})
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None:
            assert self.engine.drain(PATIENCE_S), "jobs were left"
            self.engine.stop()
        else:
            self.engine.abort()

    def _sink(self, said: Transition | Refused) -> None:
        with self._said:
            (self.log if isinstance(said, Transition) else self.anomalies).append(said)  # type: ignore[arg-type]
            self._said.notify_all()

    def submit(self, job: str, partitions: int = 1, **more: object) -> None:
        """Queue a job for the engine."""
        self._numbers += 1
        self.source.jobs.append(claimed(job, partitions, number=self._numbers, **more))
        self.engine.wake()

    def gate(self, step: str, job: str, partition: int = 0) -> Gate:
        """Make a step of the kind wait."""
        return self.kind.gate(step, job, partition)

    def command(self, action: str, target: str, name: str | None = None, **arguments: object) -> str | None:
        """Execute a command; its outcome."""
        kind = Target.JOB if action in JOB_ACTIONS else Target.WORKER
        command = EngineCommand(
            name or f"{action} {target} {len(self.log)}", action, target, by="olga", arguments=arguments, kind=kind
        )
        self.engine.command(command)
        return self.view(Entity.COMMAND, command.id).detail.get("outcome")

    def await_state(self, entity: Entity, name: str, state: str, patience_s: float = PATIENCE_S) -> None:
        """Wait until the log says that a thing entered a state."""

        def there() -> bool:
            return any(t.entity is entity and t.entity_id == name and t.new == state for t in self.log)

        with self._said:
            assert self._said.wait_for(there, patience_s), f"{name} never became {state}: {self.states(entity, name)}"

    def await_that(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the log holds."""
        with self._said:
            assert self._said.wait_for(condition, PATIENCE_S), "it never came to be"

    def await_attempt(self, attempt: str, state: str) -> None:
        """Wait for an attempt's state."""
        self.await_state(Entity.ATTEMPT, attempt, state)

    def await_job(self, job: str, state: str, patience_s: float = PATIENCE_S) -> None:
        """Wait for a job's state."""
        self.await_state(Entity.JOB, job, state, patience_s)

    def states(self, entity: Entity, name: str) -> list[str]:
        """All states that a thing entered, in order."""
        return [t.new for t in self.log if t.entity is entity and t.entity_id == name]

    def attempt(self, attempt: str) -> list[str]:
        """All states that an attempt entered, in order."""
        return self.states(Entity.ATTEMPT, attempt)

    def state(self) -> FleetState:
        """The tracker's state now."""
        return self.tracker.snapshot()

    def view(self, entity: Entity, name: str):  # type: ignore[no-untyped-def]
        """A thing's view now."""
        return self.state().get(entity, name)

    def activity(self, worker: int) -> str:
        """What the card of Wn reads."""
        slot = next(slot for slot in self.engine._worker_slots if slot.number == worker)
        return self.state().activity(slot.id)


def claiming(rig: Rig) -> Gate:
    """Where the next claim waits: the database says that the job is this session's, the engine has not heard of it."""
    gate, claim = Gate(), rig.source.claim

    def slowly(limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        jobs = claim(limit, min_priority)
        if jobs:
            gate.pass_through()
        return jobs

    rig.source.claim = slowly  # type: ignore[method-assign]
    return gate
