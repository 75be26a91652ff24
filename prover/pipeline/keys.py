"""The keys that this process holds: loaded on demand, once, in the background; kept while they are used or wanted.

A key and its recorded circuit are one holding: whoever works with them has a lease. What nobody leases goes when the
memory budget needs room, what was used longest ago first, but nothing that was used within `min_idle_s` and nothing
that is pinned. A key that waits for memory, or is loading, holds nobody up but those who need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

import structlog

from ..circuits.provable import refuse_unprovable
from ..errors import CuzkError
from ..filecoin.circuit_ids import circuit_of
from ..filecoin.shapes import CircuitShape, Priority
from ..states import JsonObject
from .attempts import NO_DEADLINE, Order
from .budget import UNLIMITED, Claim, MemoryBudget, Reservation, Shortage, Waiting
from .demand import Demand, demand
from .devices import Device
from .key_loading import KindSettings, LoadedKey
from .kinds import Lease, Report, unheard

log = structlog.get_logger(__name__)

#: phases of a key's reservation: for as long as it is held, and while its circuit is recorded or read
_LASTING, _RECORDING = "lasting", "recording"
#: what people ask for takes memory after the jobs of normal priority that wait for some
PRELOAD_ORDER = Order(-Priority.NORMAL, NO_DEADLINE, 2**62, 0, "preload")
#: how long an eviction by command waits for the making of tables to stop
STOP_TABLES_S = 10.0


class KeyInUse(CuzkError):
    """The key is in use, being loaded or pinned, and stays."""

    code = "key_in_use"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key that is held, or on its way. Bytes are those of bases and tables, and of the recorded circuit."""

    name: str  # of its files
    label: str
    state: str  # waiting (for memory), loading, ready
    tier: str  # where it is: host; devices have copies of parts (chunks)
    nbytes: int
    circuit_nbytes: int
    refs: int  # leases
    idle_s: float | None  # since the last lease ended; None while there is one
    pinned: bool
    evictable: bool  # the budget may take it now
    shortage: Shortage | None  # why it waits

    def to_json(self) -> JsonObject:
        """As the journal samples it."""
        idle = None if self.idle_s is None else round(self.idle_s)
        return {
            "name": self.name, "label": self.label, "state": self.state, "tier": self.tier, "bytes": self.nbytes,
            "circuit_bytes": self.circuit_nbytes, "refs": self.refs, "idle_secs": idle, "pinned": self.pinned,
            "evictable": self.evictable, "waits": None if self.shortage is None else str(self.shortage),
        }  # fmt: skip


@dataclass(slots=True, eq=False)
class _Entry:
    shape: CircuitShape
    claim: Waiting
    loaded: LoadedKey
    used_at: float
    load: Future[LoadedKey] = field(default_factory=Future)
    reservation: Reservation | None = None
    wanted: int = 0  # who waits for its load
    refs: int = 0

    @property
    def ready(self) -> bool:
        return self.load.done() and self.load.exception() is None


class KeyLoad:
    """The load of a key, as seen by one who waits for it."""

    def __init__(self, entry: _Entry, leave: Callable[[], None]) -> None:
        self._entry, self._leave = entry, leave

    @property
    def running(self) -> bool:
        """Whether it goes on, or waits for memory."""
        return not self._entry.load.done()

    def result(self) -> LoadedKey:
        """The key, waiting for it. Raises what the load raised."""
        return self._entry.load.result()

    def shortage(self) -> Shortage | None:
        """Why it waits for memory; None when it does not."""
        return self._entry.claim.shortage()

    def leave(self) -> None:
        """Not wait any more: a load that nobody waits for, and that has no memory yet, ends."""
        self._leave()


class KeyManager:
    """All keys of a process, by the circuits that they are for. Thread-safe."""

    def __init__(
        self, settings: KindSettings, budget: MemoryBudget | None = None, devices: Sequence[Device] = (),
        report: Report = unheard, *, min_idle_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic, changed: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        """A key is loaded for all `devices`; without any, each part when it is first asked for. `changed` is called
        when a load has ended."""
        self.settings = settings
        self.budget = budget or MemoryBudget(UNLIMITED)
        self._devices, self._report, self._changed = tuple(devices), report, changed
        self._min_idle_s, self._clock = min_idle_s, clock
        self._entries: dict[str, _Entry] = {}
        self._pinned: set[str] = set()
        self._lock = threading.Lock()  # no call of the budget is made with it: the budget calls `evict_idle`
        self.budget.use_evictor(self.evict_idle)

    @property
    def loads_ahead(self) -> bool:
        """Whether keys are loaded before anybody works with them."""
        return bool(self._devices)

    # -- for work ---------------------------------------------------------------------------------------------------

    def lease(self, shape: CircuitShape) -> Lease | None:
        """Keep a key that is ready until the lease is released; None when it is not ready."""
        with self._lock:
            entry = self._entries.get(shape.key_name)
            if entry is None or not entry.ready:
                return None
            entry.refs += 1
            entry.used_at = self._clock()
            return Lease(partial(self._release, entry))

    def is_ready(self, shape: CircuitShape) -> bool:
        """Whether it could be leased now."""
        with self._lock:
            entry = self._entries.get(shape.key_name)
            return entry is not None and entry.ready

    def get(self, shape: CircuitShape, report: Report | None = None) -> LoadedKey:
        """The key of who has a lease; of others its parts are loaded when asked for. Raises BudgetExceeded."""
        with self._lock:
            entry = self._entries.get(shape.key_name)
        if entry is None:
            entry, mine = self._entry(shape, PRELOAD_ORDER)
            if mine:
                self._load(entry, report or self._report, ())
        return entry.load.result()

    def request(self, shape: CircuitShape, order: Order, report: Report | None = None) -> KeyLoad:
        """The load of a key, begun in the background unless it goes on; it takes memory by the most urgent order of who
        asked. Raises BudgetExceeded where key and work cannot both fit."""
        entry, mine = self._entry(shape, order)
        if mine:
            work = (entry, report or self._report, self._devices)
            threading.Thread(target=self._load, args=work, name="key", daemon=True).start()
        else:
            entry.claim.hasten(order)
        return KeyLoad(entry, partial(self._leave, entry))

    def refuse_too_large(self, shape: CircuitShape) -> None:
        """Raise BudgetExceeded where the key and one attempt cannot both fit into the whole budget."""
        needs = self._demand(shape)
        work = needs.attempt(on_host=self.settings.on_host)
        self.budget.refuse_too_large(Claim(shape.label, PRELOAD_ORDER, work, beside=needs.lasting(0)))

    def attempt_claim(self, shape: CircuitShape, owner: str, order: Order) -> Claim:
        """What an attempt with this key claims."""
        parts = self._demand(shape).attempt(on_host=self.settings.on_host)
        with self._lock:
            entry = self._entries.get(shape.key_name)
            pinned = shape.key_name in self._pinned
            beside = 0 if entry is None or entry.reservation is None or pinned else entry.reservation.nbytes
        return Claim(owner, order, parts, beside=beside, spare=shape.key_name)

    # -- for people -------------------------------------------------------------------------------------------------

    def preload(self, circuit_id: str) -> tuple[bool, int]:
        """Have a key loaded; whether it was already, and the milliseconds that it took. Raises CircuitUnknown,
        KeyNotFound, KeyFileDamaged, KeyMismatch, KeyNotMade, BudgetExceeded."""
        return self.preload_shape(self._named(circuit_id))

    def preload_shape(self, shape: CircuitShape) -> tuple[bool, int]:
        """As `preload`. Raises DomainTooLarge too."""
        refuse_unprovable(shape)
        if self.is_ready(shape):
            return True, 0
        began = self._clock()
        self.refuse_missing(shape)
        self.request(shape, PRELOAD_ORDER).result()
        return False, round(1000 * (self._clock() - began))

    def evict(self, circuit_id: str) -> tuple[bool, int]:
        """Let a key go, however short it was idle; whether it was there, and the bytes that were freed. Raises
        CircuitUnknown, KeyInUse."""
        shape = self._named(circuit_id)
        self._stop_tables(shape)
        with self._lock:
            entry = self._entries.get(shape.key_name)
            if entry is None:
                return False, 0
            refusal = self._refusal(entry)
            if refusal is not None:
                raise KeyInUse(f"{shape.label}: {refusal}")
            del self._entries[shape.key_name]
        return True, self._gone(entry)

    def pin(self, circuit_id: str, pinned: bool = True) -> bool:
        """Whether a key is to stay, once it is loaded; whether it is. Raises CircuitUnknown."""
        shape = self._named(circuit_id)
        with self._lock:
            (self._pinned.add if pinned else self._pinned.discard)(shape.key_name)
            entry = self._entries.get(shape.key_name)
            reservation = entry.reservation if entry is not None else None
        if reservation is not None:
            reservation.pin(pinned)
        return reservation is not None

    def loaded(self) -> tuple[KeyRow, ...]:
        """All keys that are held or on their way, by name."""
        with self._lock:
            entries = sorted(self._entries.items())
            rows = [self._row(name, entry) for name, entry in entries]
        return tuple(rows)

    def refuse_missing(self, shape: CircuitShape) -> None:
        """Raise KeyNotFound for a key that is not there and will not be made, KeyFileDamaged for one set aside."""
        keys = self.settings.keys
        keys.refuse_set_aside(shape.key_name)
        if not self.settings.make_missing:
            keys.find(shape.key_name)

    # -- what the budget calls --------------------------------------------------------------------------------------

    def evict_idle(self, nbytes: int, spare: str | None = None) -> int:
        """Free so many bytes of what is idle, what was used longest ago first; nothing, where that is not enough."""
        with self._lock:
            idle = [entry for name, entry in self._entries.items() if name != spare and self._is_idle(entry)]
            idle.sort(key=lambda entry: entry.used_at)
            victims, freed = [], 0
            while idle and freed < nbytes:
                victims.append(idle.pop(0))
                freed += victims[-1].reservation.nbytes if victims[-1].reservation else 0
            if freed < nbytes or not self._stopped(victims):
                return 0
            for victim in victims:
                del self._entries[victim.shape.key_name]
        return sum(self._gone(victim) for victim in victims)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _demand(self, shape: CircuitShape) -> Demand:
        return demand(shape)

    def _named(self, circuit_id: str) -> CircuitShape:
        with self._lock:
            known = {name: entry.shape for name, entry in self._entries.items()}
        return known[circuit_id] if circuit_id in known else circuit_of(circuit_id)

    def _entry(self, shape: CircuitShape, order: Order) -> tuple[_Entry, bool]:
        """The entry of a circuit, wanted once more, and whether it was made now."""
        with self._lock:
            entry = self._entries.get(shape.key_name)
            if entry is not None:
                entry.wanted += 1
                return entry, False
        made = self._new_entry(shape, order)
        with self._lock:
            entry = self._entries.setdefault(shape.key_name, made)
            entry.wanted += 1
        if entry is not made:
            made.claim.withdraw()
        return entry, entry is made

    def _new_entry(self, shape: CircuitShape, order: Order) -> _Entry:
        needs = self._demand(shape)
        self.refuse_too_large(shape)
        # tables are left out where they would take the room of the work itself
        work = sum(needs.attempt(on_host=self.settings.on_host).values())
        table_bytes = min(self.settings.table_bytes, max(0, self.budget.total - work - needs.circuit))
        parts = {_LASTING: needs.lasting(table_bytes), _RECORDING: needs.recording}
        claim = Claim(f"the key of {shape.label}", order, parts, lasting=True)
        loaded = LoadedKey(self.settings, shape, table_bytes)
        return _Entry(shape, self.budget.enqueue(claim), loaded, self._clock())

    def _load(self, entry: _Entry, report: Report, devices: Sequence[Device]) -> None:
        reservation: Reservation | None = None
        try:
            reservation = entry.claim.result()
            if devices:
                entry.loaded.prepare(devices, report)
            self._account(entry, reservation)
        except BaseException as error:
            self._failed(entry, reservation, error)
        else:
            entry.load.set_result(entry.loaded)
        finally:
            del reservation
            self._changed()

    def _account(self, entry: _Entry, reservation: Reservation) -> None:
        """From now on it takes what it takes; tables that are to be made count already."""
        reservation.release(_RECORDING)
        planned = entry.loaded.planned_nbytes
        if planned is not None:
            reservation.shrink(_LASTING, planned + self._demand(entry.shape).circuit)
        with self._lock:
            entry.reservation = reservation
            entry.used_at = self._clock()
            pinned = entry.shape.key_name in self._pinned
        reservation.pin(pinned)

    def _failed(self, entry: _Entry, reservation: Reservation | None, error: BaseException) -> None:
        with self._lock:
            if self._entries.get(entry.shape.key_name) is entry:
                del self._entries[entry.shape.key_name]
        entry.loaded.evicted()
        if reservation is not None:
            reservation.close()
        entry.load.set_exception(error)

    def _release(self, entry: _Entry) -> None:
        with self._lock:
            entry.refs -= 1
            entry.used_at = self._clock()
        self.budget.look()

    def _leave(self, entry: _Entry) -> None:
        with self._lock:
            entry.wanted -= 1
            unwanted = entry.wanted == 0 and not entry.claim.served
            if unwanted and self._entries.get(entry.shape.key_name) is entry:
                del self._entries[entry.shape.key_name]
        if unwanted:
            entry.claim.withdraw()

    def _is_idle(self, entry: _Entry) -> bool:
        return self._refusal(entry) is None and self._clock() - entry.used_at >= self._min_idle_s

    def _refusal(self, entry: _Entry) -> str | None:
        """Why it may not go; with the lock."""
        if not entry.ready:
            return "it is being loaded"
        if entry.refs:
            return f"it is in use by {entry.refs} attempts" if entry.refs > 1 else "it is in use by an attempt"
        return "it is pinned" if entry.shape.key_name in self._pinned else None

    def _stop_tables(self, shape: CircuitShape) -> None:
        """Before an eviction by command: the making of its tables uses the key."""
        with self._lock:
            entry = self._entries.get(shape.key_name)
            refused = entry is None or self._refusal(entry) is not None
        making = None if entry is None or refused else entry.loaded.tabulation
        if making is not None:
            making.stop()
            making.join(STOP_TABLES_S)
            if making.running:
                raise KeyInUse(f"{shape.label}: its tables are being made; that was asked to stop")

    @staticmethod
    def _stopped(victims: Sequence[_Entry]) -> bool:
        """Whether no tables of these are being made; where some are, that is asked to stop."""
        making = [entry.loaded.tabulation for entry in victims]
        running = [tabulation for tabulation in making if tabulation is not None and tabulation.running]
        for tabulation in running:
            tabulation.stop()
        return not running

    def _gone(self, entry: _Entry) -> int:
        """Drop what was held, then give its bytes back: what the budget says is free is free."""
        loaded, reservation = entry.loaded, entry.reservation
        entry.load = Future()  # nobody has it but those who leased it, and there are none
        del entry.loaded
        loaded.evicted()
        name, nbytes = loaded.shape.key_name, loaded.nbytes
        del loaded
        log.info("key evicted", name=name, bytes=nbytes)
        return reservation.close() if reservation is not None else 0

    def _row(self, name: str, entry: _Entry) -> KeyRow:
        ready = entry.ready
        shortage = None if ready else entry.claim.shortage()
        return KeyRow(
            name, entry.shape.label, "ready" if ready else "waiting" if shortage else "loading", "host",
            entry.loaded.nbytes, self._demand(entry.shape).circuit if ready else 0, entry.refs,
            None if entry.refs or not ready else self._clock() - entry.used_at, name in self._pinned,
            self._is_idle(entry) and not self._is_tabulating(entry), shortage,
        )  # fmt: skip

    @staticmethod
    def _is_tabulating(entry: _Entry) -> bool:
        making = entry.loaded.tabulation
        return making is not None and making.running
