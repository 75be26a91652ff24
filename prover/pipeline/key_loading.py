"""A circuit with its key, as a process holds them: recorded matrices, bases and tables, ready on each device.

What is loaded is loaded once, whoever asks; every phase is reported, and so is the end of it all when it is evicted.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..circuits.synthesis import Circuit
from ..filecoin.shapes import CircuitShape
from ..groth16.errors import KeyFileDamaged
from ..groth16.keys import Parameters
from ..groth16.making import is_being_made
from ..groth16.prover import ProvingKey
from ..groth16.store import KeyStore
from ..groth16.tables import TableStore
from ..states import Holding, JsonObject
from .devices import Device
from .kinds import Report, phase
from .local_keys import make_local_key
from .single_flight import Once, SingleFlight
from .tables import Tabulation


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
    on_host: bool = True  # the devices' memory is the host's: they are CPUs


class LoadedKey:
    """A circuit and its key. Each part is loaded when it is first asked for, and goes with this object."""

    def __init__(self, settings: KindSettings, shape: CircuitShape, table_bytes: int) -> None:
        self.shape = shape
        self._settings, self._table_bytes = settings, table_bytes
        self._circuit: Once[Circuit] = Once()
        self._making: Once[None] = Once()
        self._shared: Once[ProvingKey] = Once()
        self._on: SingleFlight[str, ProvingKey] = SingleFlight()
        self._tabulating: Once[Tabulation] = Once()
        self._told = _Told()

    def prepare(self, devices: Sequence[Device], report: Report) -> None:
        """Load all of it for these devices, side by side. Raises what any of them raises."""
        self.circuit(report)
        if devices:
            with ThreadPoolExecutor(len(devices), thread_name_prefix="key") as pool:
                list(pool.map(lambda device: self.on(device, report), devices))

    def circuit(self, report: Report) -> Circuit:
        """The recorded circuit, compiled."""
        return self._circuit.get(lambda: self._load_circuit(self._told.by(report)))

    def on(self, device: Device, report: Report) -> ProvingKey:
        """The key, compiled for a device. Raises KeyNotFound, KeyNotMade, KeyFileDamaged, KeyMismatch."""
        return self._on.get(device.info.id, lambda: self._load_on(device, self._told.by(report)))

    def forget(self, device: Device) -> None:
        """Load it for a device anew when it is next asked for: what the device held is gone."""
        self._on.forget(device.info.id)

    @property
    def nbytes(self) -> int:
        """Bytes of bases and tables, as they are now; 0 before they are loaded."""
        key = self._shared.made
        return 0 if key is None else key.nbytes

    @property
    def planned_nbytes(self) -> int | None:
        """The same once the tables are made that its memory holds; None before bases are loaded."""
        key = self._shared.made
        return None if key is None else key.planned_nbytes(self._table_bytes)

    @property
    def tabulation(self) -> Tabulation | None:
        """The making of its tables, once that has begun."""
        return self._tabulating.made

    def evicted(self) -> None:
        """Say that nothing of it is held any more."""
        self._told.evicted()

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load_circuit(self, report: Report) -> Circuit:
        shape = self.shape
        detail: JsonObject = {"name": f"{shape.label} synthesis"}
        with phase(report, f"program:{shape.cache_name}", Holding.COMPILING, detail) as say:
            circuit = Circuit.load(shape, self._settings.circuit_cache)
            circuit.compile()
            say({"rows": circuit.matrices.num_rows})
            return circuit

    def _load_on(self, device: Device, report: Report) -> ProvingKey:
        shape, settings = self.shape, self._settings
        circuit, place = self.circuit(report), f"{shape.key_name}@{device.ordinal}"
        if settings.make_missing:
            self._making.get(lambda: make_missing(settings.keys, shape, report))
        local = settings.keys.find(shape.key_name).local
        detail: JsonObject = {"name": shape.label, "device": device.ordinal, "local": local}
        with phase(report, f"key:{place}", Holding.LOADING, detail) as say:
            key = self._shared.get(lambda: self._open(circuit)).on(device.handle)
            say({"bytes": key.nbytes})
        with phase(report, f"program:{place}", Holding.COMPILING, {"name": shape.label, "device": device.ordinal}):
            key.warm_up()
        if self._table_bytes:
            self._tabulating.get(lambda: self._make_tables(key, report))
        return key

    def _open(self, circuit: Circuit) -> ProvingKey:
        """What the devices share of the key, every byte checked."""
        settings = self._settings
        return ProvingKey(
            _open(settings.keys, self.shape.key_name), circuit.matrices, threads=settings.device_threads,
            store=settings.tables, table_bytes=self._table_bytes,
        )  # fmt: skip

    def _make_tables(self, key: ProvingKey, report: Report) -> Tabulation:
        """In the background, once for all devices."""
        name, detail = f"key:{self.shape.key_name}@tables", {"name": f"{self.shape.label} tables"}
        return Tabulation(key, self._table_bytes, name, detail, report)


class _Told:
    """What was reported of a key, so that all of it can be said to be gone."""

    def __init__(self) -> None:
        self._states: dict[str, Holding] = {}
        self._report: Report | None = None
        self._lock = threading.Lock()

    def by(self, report: Report) -> Report:
        """`report`, and remember what it is told."""

        def tell(name: str, state: Holding, detail: JsonObject, *, reason: str | None = None) -> object:
            with self._lock:
                self._states[name], self._report = state, report
            return report(name, state, detail, reason=reason)

        return tell

    def evicted(self) -> None:
        with self._lock:
            held = [name for name, state in self._states.items() if state in (Holding.READY, Holding.LOADING)]
            report = self._report
            self._states.clear()
        for name in held if report else ():
            assert report is not None
            report(name, Holding.EVICTED, {})


def make_missing(keys: KeyStore, shape: CircuitShape, report: Report) -> None:
    """Make local keys, or wait for who makes them, unless they are there."""
    name = shape.key_name
    if is_being_made(keys.directory, name) or not keys.path(name, "params").exists():
        make_local_key(keys, shape, report)


def _open(keys: KeyStore, name: str) -> Parameters:
    """A key that turns out damaged is set aside. Raises KeyFileDamaged, KeyNotFound."""
    keys.refuse_set_aside(name)
    try:
        return keys.open(name)
    except KeyFileDamaged as error:
        keys.set_aside(name, error)
        raise
