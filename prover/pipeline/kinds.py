"""What the engine knows of a kind of proof: six steps. Everything else about proofs is behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from ..errors import CuzkError, describe
from ..states import Holding, JsonObject
from .devices import Device

Work = TypeVar("Work")  # one partition's input, checked
Synthesized = TypeVar("Synthesized")  # its witness and a, b, c
Pending = TypeVar("Pending")  # what the device left for the tail


class ProofRefused(CuzkError):
    """The proof that was made does not verify; it is not delivered."""

    code = "proof_refused"
    retryable = True  # a corrupted result of a device may come out right the next time


class DeviceFailed(CuzkError):
    """The device failed while it computed."""

    code = "device_failed"
    retryable = True


class KeyAwaited(Exception):
    """The key `name` of the circuit `label` is being made by somebody. `still` says whether it is; afterwards `then`
    gives what `load` would have given.

    So nobody stands and waits: the job does.
    """

    def __init__(self, name: str, label: str, still: Callable[[], bool], then: Callable[[], Sequence[Any]]) -> None:
        super().__init__(f"the key of {label} is being made")
        self.name = name
        self.label = label
        self.still = still
        self.then = then


class Report(Protocol):
    """Called when a key or a program is being loaded or compiled, so that the phase can be seen."""

    def __call__(self, name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> object:
        """`name` is key:NAME, program:NAME or chunk:ORDINAL; detail: name, bytes, progress, device."""


@contextmanager
def phase(report: Report, name: str, state: Holding, detail: JsonObject) -> Iterator[Callable[[JsonObject], None]]:
    """A phase that is seen: it begins with `state` and ends ready, with what was said, or failed."""
    said: dict[str, object] = {}
    report(name, state, detail)
    try:
        yield said.update
    except BaseException as error:
        code, text = describe(error)
        report(name, Holding.FAILED, {**detail, "error": text}, reason=code)
        raise
    report(name, Holding.READY, {**detail, **said})


class Kind(Protocol[Work, Synthesized, Pending]):
    """One kind of proof. All methods are called from several threads at once; each raises CuzkError when it fails."""

    name: str

    def load(self, request: bytes) -> Sequence[Work]:
        """Parse and check a request in full; the work of each partition, in order. Raises KeyAwaited too."""

    def has_local_keys(self, work: Work) -> bool:
        """Whether it is proved with keys made here: not for the chain."""

    def synthesize(self, work: Work, report: Report) -> Synthesized:
        """The witness and its a, b, c. On the CPU, without a device's lock."""

    def prepare(self, work: Work, device: Device, report: Report) -> None:
        """Have the key and the compiled programs for `work` on `device`. Once a device: others wait for the first."""

    def start(self, work: Work, synthesized: Synthesized, device: Device) -> Pending:
        """The device phase. Called with the device's lock; returns when the device's outputs are ready."""

    def finish(self, pending: Pending) -> bytes:
        """The tail on the CPU: the proof of 192 bytes."""

    def verify(self, work: Work, proof: bytes) -> None:
        """Verify a partition's proof by a path that shares no code with the prover. Raises ProofRefused."""

    def verify_delivery(self, works: Sequence[Work], proof: bytes) -> None:
        """Parse and verify what will be delivered: 192 bytes a partition. Raises ProofRefused."""


AnyKind = Kind[Any, Any, Any]
