"""What the engine knows of a kind of proof: six steps. Everything else about proofs is behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from ..errors import CuzkError, describe
from ..states import Holding, JsonObject
from .attempts import Order
from .budget import Claim, Shortage
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


class Lease:
    """Something that stays as long as it is leased. Releasing it again does nothing."""

    def __init__(self, release: Callable[[], object] = lambda: None) -> None:
        self._release: Callable[[], object] | None = release

    def release(self) -> None:
        """It is not needed any more."""
        release, self._release = self._release, None
        if release is not None:
            release()


class Load(Protocol):
    """A key that is on its way to this process."""

    @property
    def running(self) -> bool:
        """Whether it is."""

    def result(self) -> object:
        """At its end; raises what the load raised."""

    def shortage(self) -> Shortage | None:
        """Why it waits for memory; None when it does not."""

    def leave(self) -> None:
        """Not wait for it any more."""


class KeyAwaited(Exception):
    """The key `name` of the circuit `label` is not here yet. `still` says whether that is so; afterwards `then` gives
    what `load` would have given. `begin` has it loaded, with the urgency of who waits; without it, somebody makes it.

    So nobody stands and waits: the job does.
    """

    def __init__(
        self, name: str, label: str, still: Callable[[], bool], then: Callable[[], Sequence[Any]],
        begin: Callable[[Order, Report], Load] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(f"the key of {label} is being {'made' if begin is None else 'loaded'}")
        self.name = name
        self.label = label
        self._still, self._then, self._begin = still, then, begin
        self._load: Load | None = None

    def begin(self, order: Order, report: Report) -> None:
        """Have it loaded, where that is up to us. Raises CuzkError."""
        if self._begin is not None and self._load is None:
            self._load = self._begin(order, report)

    def still(self) -> bool:
        """Whether it is still awaited."""
        return self._still() if self._load is None else self._load.running

    def then(self) -> Sequence[Any]:
        """What was asked for. Raises what the load raised."""
        if self._load is not None:
            self._load.result()
        return self._then()

    def leave(self) -> None:
        """Nobody waits for it here any more."""
        if self._load is not None:
            self._load.leave()

    @property
    def what(self) -> str:
        """What is awaited, and why, for people."""
        shortage = None if self._load is None else self._load.shortage()
        doing = "made" if self._begin is None else "loaded"
        return f"{self.label}, being {doing}: jobs wait for it" + (f"; {shortage}" if shortage else "")


class Report(Protocol):
    """Called when a key or a program is being loaded or compiled, so that the phase can be seen."""

    def __call__(self, name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> object:
        """`name` is key:NAME, program:NAME or chunk:ORDINAL; detail: name, bytes, progress, device."""


def unheard(name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> object:
    """The report of who tells nobody."""


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

    def lease(self, work: Work) -> Lease:
        """Keep the key of `work` until the lease is released. Raises KeyAwaited when it is not here."""

    def claim(self, work: Work, owner: str, order: Order) -> Claim:
        """What an attempt claims of the memory budget, by the phases of `demand`. Called with a lease."""

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
