"""The four kinds of proof of Filecoin, as kinds of the engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..circuits.provable import refuse_unprovable
from ..circuits.synthesis import Assignment, Circuit
from ..filecoin.errors import InvalidRequest
from ..filecoin.partitions import Partition, partitions
from ..filecoin.request import parse_message
from ..filecoin.shapes import CircuitShape, ProofKind
from ..groth16.errors import KeyNotFound, ProofMalformed
from ..groth16.keys import Parameters
from ..groth16.making import is_being_made
from ..groth16.prover import Pending, ProvingKey, start
from ..groth16.store import KeyStore
from ..groth16.tables import TableStore
from ..groth16.verifier import PreparedKey
from ..states import Holding
from .device_faults import DeviceLost, device_phase
from .devices import Device
from .kinds import KeyAwaited, ProofRefused, Report, phase
from .local_keys import make_local_key
from .single_flight import SingleFlight
from .tables import make_later


@dataclass(frozen=True, slots=True)
class KindSettings:
    """Where keys and caches are, and what one proof may use."""

    keys: KeyStore
    circuit_cache: Path | None = None  # recorded matrices
    make_missing: bool = False  # make local keys of a circuit that has none: for test stacks
    tables: TableStore | None = None  # where bases and tables are kept between runs
    table_bytes: int = 0  # memory of a key's bases and tables; these are made once it is in use
    device_threads: int = 2  # of the device phase and the tail
    synthesis_threads: int = 1


class FilecoinKind:
    """One of the kinds; every sector size works by its shape. Keys are loaded once a device, circuits once."""

    def __init__(self, kind: ProofKind, settings: KindSettings) -> None:
        self.name = str(kind)
        self._settings = settings
        self._circuits: SingleFlight[CircuitShape, Circuit] = SingleFlight()
        self._made: SingleFlight[str, None] = SingleFlight()
        self._parameters: SingleFlight[str, Parameters] = SingleFlight()
        self._bases: SingleFlight[str, ProvingKey] = SingleFlight()
        self._proving: SingleFlight[tuple[str, str], ProvingKey] = SingleFlight()
        self._tabulating: SingleFlight[str, threading.Thread] = SingleFlight()
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
        if not self._settings.make_missing:
            self._settings.keys.find(shape.key_name)
        return works

    def has_local_keys(self, work: Partition) -> bool:
        """Whether the key of this circuit was made here."""
        try:
            return self._settings.keys.find(work.shape.key_name).local
        except KeyNotFound:  # then it will be made here
            return True

    def synthesize(self, work: Partition, report: Report) -> Assignment:
        """The assignment; the first one of a circuit loads it. Raises UnsatisfiedConstraint."""
        return self._circuit(work.shape, report).synthesize(work.instance, self._settings.synthesis_threads)

    def prepare(self, work: Partition, device: Device, report: Report) -> None:
        """Load the key and compile what a proof needs, once a device. Raises DeviceFailed."""
        self._reports[device.info.id] = report
        with device_phase(device):
            self._key(work.shape, device, report)

    def preload(self, shape: CircuitShape, device: Device, report: Report) -> None:
        """What `prepare` does, before there is work. Raises DomainTooLarge, KeyNotFound, KeyDamaged."""
        refuse_unprovable(shape)
        if not self._settings.make_missing:
            self._settings.keys.find(shape.key_name)
        self._key(shape, device, report)

    def has_key(self, shape: CircuitShape, device: Device) -> bool:
        """Whether the key is loaded for a device."""
        return self._proving.has((shape.key_name, device.info.id))

    def start(self, work: Partition, synthesized: Assignment, device: Device) -> Pending:
        """The device phase, with fresh r and s. Raises DeviceFailed."""
        place = (work.shape.key_name, device.info.id)
        key = self._proving.get(place, _never)
        try:
            with device_phase(device, self._reports.get(device.info.id)):
                return start(key, synthesized)
        except DeviceLost:
            self._proving.forget(place)  # what it held there is gone too
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

    # -- what is kept -----------------------------------------------------------------------------------------------

    def _circuit(self, shape: CircuitShape, report: Report) -> Circuit:
        return self._circuits.get(shape, lambda: self._load_circuit(shape, report))

    def _load_circuit(self, shape: CircuitShape, report: Report) -> Circuit:
        with phase(
            report, f"program:{shape.cache_name}", Holding.COMPILING, {"name": f"{shape.label} synthesis"}
        ) as say:
            circuit = Circuit.load(shape, self._settings.circuit_cache)
            circuit.compile()
            say({"rows": circuit.matrices.num_rows})
            return circuit

    def _key(self, shape: CircuitShape, device: Device, report: Report) -> ProvingKey:
        return self._proving.get(
            (shape.key_name, device.info.id), lambda: self._load_key(shape, device, report)
        )  # fmt: skip

    def _load_key(self, shape: CircuitShape, device: Device, report: Report) -> ProvingKey:
        circuit, place = self._circuit(shape, report), f"{shape.key_name}@{device.ordinal}"
        if self._settings.make_missing:
            self._made.get(shape.key_name, lambda: self._make_key(shape, report))
        detail = {
            "name": shape.label,
            "device": device.ordinal,
            "local": self._settings.keys.find(shape.key_name).local,
        }
        with phase(report, f"key:{place}", Holding.LOADING, detail) as say:
            key = self._shared_key(shape, circuit).on(device.handle)
            say({"bytes": key.nbytes})
        with phase(report, f"program:{place}", Holding.COMPILING, {"name": shape.label, "device": device.ordinal}):
            key.warm_up()
        if self._settings.table_bytes:
            self._tabulating.get(shape.key_name, lambda: self._make_tables(shape, key, report))
        return key

    def _make_key(self, shape: CircuitShape, report: Report) -> None:
        """Unless it is there."""
        keys, name = self._settings.keys, shape.key_name
        if is_being_made(keys.directory, name) or not keys.path(name, "params").exists():
            make_local_key(keys, shape, report)

    def _make_tables(self, shape: CircuitShape, key: ProvingKey, report: Report) -> threading.Thread:
        """In the background, once for all devices."""
        name, detail = f"key:{shape.key_name}@tables", {"name": f"{shape.label} tables"}
        return make_later(key, self._settings.table_bytes, name, detail, report)

    def _shared_key(self, shape: CircuitShape, circuit: Circuit) -> ProvingKey:
        """What the devices share of a key."""

        def made() -> ProvingKey:
            settings = self._settings
            return ProvingKey(
                self._open(shape), circuit.matrices, threads=settings.device_threads, store=settings.tables,
                table_bytes=settings.table_bytes,
            )  # fmt: skip

        return self._bases.get(shape.key_name, made)

    def _open(self, shape: CircuitShape) -> Parameters:
        return self._parameters.get(shape.key_name, lambda: self._settings.keys.open(shape.key_name))

    def _verifier(self, shape: CircuitShape) -> PreparedKey:
        name = shape.key_name
        return self._verifying.get(name, lambda: PreparedKey(self._settings.keys.verifying_key(name)))


def _never() -> ProvingKey:
    raise AssertionError("the device phase begins after `prepare`")
