"""The four kinds of proof of Filecoin, as kinds of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..circuits.provable import refuse_unprovable
from ..circuits.synthesis import Assignment
from ..filecoin.errors import InvalidRequest
from ..filecoin.partitions import Partition, partitions
from ..filecoin.request import parse_message
from ..filecoin.shapes import CircuitShape, ProofKind
from ..groth16.errors import KeyNotFound, ProofMalformed
from ..groth16.making import is_being_made
from ..groth16.prover import Pending, start
from ..groth16.verifier import PreparedKey
from .attempts import Order
from .budget import Claim
from .device_faults import DeviceLost, device_phase
from .devices import Device
from .key_loading import KindSettings
from .keys import KeyManager
from .kinds import KeyAwaited, Lease, ProofRefused, Report, unheard
from .single_flight import SingleFlight

__all__ = ["FilecoinKind", "KindSettings"]


class FilecoinKind:
    """One of the kinds; every sector size works by its shape."""

    def __init__(self, kind: ProofKind, settings: KindSettings, keys: KeyManager | None = None) -> None:
        """`keys` are those that all kinds share; without any, this kind's own, loaded when they are asked for."""
        self.name = str(kind)
        self._settings = settings
        self._keys = keys or KeyManager(settings)
        self._verifying: SingleFlight[str, PreparedKey] = SingleFlight()
        self._reports: dict[str, Report] = {}  # by device: who hears what happens in its phase

    def load(self, request: bytes) -> Sequence[Partition]:
        """The partitions, vanilla proofs fully checked; their key is there, or will be made when it is needed.

        Raises InvalidInput (DomainTooLarge before anything is checked), KeyNotFound, KeyAwaited.
        """
        parsed = parse_message(request)
        if parsed.kind != self.name:
            raise InvalidRequest(f"the request is for {parsed.kind}, its job for {self.name}", field="proof_kind")
        refuse_unprovable(parsed.shape)
        return self._with_key(parsed.shape, partitions(parsed))

    def _with_key(self, shape: CircuitShape, works: Sequence[Partition]) -> Sequence[Partition]:
        being_made = partial(is_being_made, self._settings.keys.directory, shape.key_name)
        if being_made():
            raise KeyAwaited(shape.key_name, shape.label, being_made, partial(self._with_key, shape, works))
        self._keys.refuse_missing(shape)
        if self._keys.loads_ahead and not self._keys.is_ready(shape):
            self._keys.refuse_too_large(shape)
            raise self._awaited(shape, works)
        return works

    def _awaited(self, shape: CircuitShape, works: Sequence[Partition] = ()) -> KeyAwaited:
        """A key that is to be loaded; it is not looked at again afterwards: an attempt does, when it needs it."""
        begin = partial(self._keys.request, shape)
        return KeyAwaited(shape.key_name, shape.label, lambda: True, lambda: works, begin)

    def lease(self, work: Partition) -> Lease:
        """Keep its key. Raises KeyAwaited when it was evicted."""
        lease = self._keys.lease(work.shape)
        if lease is None and self._keys.loads_ahead:
            raise self._awaited(work.shape)
        return lease or Lease()

    def claim(self, work: Partition, owner: str, order: Order) -> Claim:
        """By the counts of its circuit."""
        return self._keys.attempt_claim(work.shape, owner, order)

    def has_local_keys(self, work: Partition) -> bool:
        """Whether the key of this circuit was made here."""
        try:
            return self._settings.keys.find(work.shape.key_name).local
        except KeyNotFound:  # then it will be made here
            return True

    def synthesize(self, work: Partition, report: Report) -> Assignment:
        """The assignment; the first one of a circuit loads it. Raises UnsatisfiedConstraint."""
        circuit = self._keys.get(work.shape, report).circuit(report)
        return circuit.synthesize(work.instance, self._settings.synthesis_threads)

    def prepare(self, work: Partition, device: Device, report: Report) -> None:
        """Load the key and compile what a proof needs, once a device. Raises DeviceFailed."""
        self._reports[device.info.id] = report
        with device_phase(device):
            self._keys.get(work.shape, report).on(device, report)

    def start(self, work: Partition, synthesized: Assignment, device: Device) -> Pending:
        """The device phase, with fresh r and s. Raises DeviceFailed."""
        report, loaded = self._reports.get(device.info.id), self._keys.get(work.shape)
        key = loaded.on(device, report or unheard)
        try:
            with device_phase(device, report):
                return start(key, synthesized)
        except DeviceLost:
            loaded.forget(device)  # what it held there is gone too
            raise

    def finish(self, pending: Pending) -> bytes:
        """The tail on the CPU: 192 bytes."""
        return pending.finish()

    def verify(self, work: Partition, proof: bytes) -> None:
        """By pairing alone. Raises ProofRefused."""
        self.verify_delivery([work], proof)

    def verify_delivery(self, works: Sequence[Partition], proof: bytes) -> None:
        """Each partition of what is delivered. Raises ProofRefused, which names the partitions."""
        try:
            wrong = self._verifier(works[0].shape).verify_partitions([work.public_inputs for work in works], proof)
        except ProofMalformed as error:
            raise ProofRefused(f"the proof that was made is none: {error}") from error
        if wrong:
            names = ", ".join(f"P{works[n].index}" for n in wrong)
            raise ProofRefused(f"the proof that was made for {names} does not verify; it is not delivered")

    def _verifier(self, shape: CircuitShape) -> PreparedKey:
        name = shape.key_name
        return self._verifying.get(name, lambda: PreparedKey(self._settings.keys.verifying_key(name)))
