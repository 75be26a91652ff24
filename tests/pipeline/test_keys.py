"""The key manager: one load at a time and for all, leases, eviction of what is idle, pins; what is evicted is gone."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prover import jaxconf
from prover.filecoin.circuit_ids import circuit_id, circuit_of
from prover.filecoin.errors import CircuitUnknown
from prover.filecoin.post import PostPartition
from prover.filecoin.shapes import CircuitShape, ProofKind, circuit_shapes, post_shape
from prover.groth16.errors import KeyFileDamaged, KeyNotFound
from prover.groth16.store import KeyStore
from prover.pipeline import keys as module
from prover.pipeline.attempts import Order
from prover.pipeline.budget import BudgetExceeded, Claim, MemoryBudget
from prover.pipeline.demand import Demand, demand
from prover.pipeline.devices import discover
from prover.pipeline.filecoin import FilecoinKind, KindSettings
from prover.pipeline.keys import PRELOAD_ORDER, KeyInUse, KeyManager
from prover.pipeline.kinds import KeyAwaited
from prover.pipeline.sources import ClaimedJob, JobInfo
from prover.states import Entity, Holding
from tests.pipeline.controlled import PATIENCE_S, Rig
from tests.pipeline.test_admission import eventually
from tests.pipeline.test_post import DATA, request, tiny

WINDOW, WINNING = (post_shape(kind, 2048) for kind in (ProofKind.WINDOW_POST, ProofKind.WINNING_POST))
LARGER = post_shape(ProofKind.WINDOW_POST, 4096)
SHAPES = (WINDOW, WINNING, LARGER)
KEY = 40  # bytes of a key and its circuit, and of an attempt
WORK = 20


class Stub:
    """A loaded key without its bytes; its load waits until the test lets it go on."""

    made: list[Stub] = []
    fails: Exception | None = None

    def __init__(self, settings: KindSettings, shape: CircuitShape, table_bytes: int) -> None:
        self.shape, self.nbytes, self.planned_nbytes, self.gone = shape, KEY, KEY, False
        self.tabulation: Any = None
        self.loads = 0
        self.made.append(self)

    def prepare(self, devices: Sequence[object], report: object) -> None:
        self.loads += 1
        assert self.go_on.wait(PATIENCE_S)
        if self.fails is not None:
            raise self.fails

    def evicted(self) -> None:
        self.gone = True

    go_on = threading.Event()


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Time) -> KeyManager:
    """For one device and 100 bytes: two keys and the work of one attempt."""
    monkeypatch.setattr(module, "LoadedKey", Stub)
    monkeypatch.setattr(module, "demand", lambda shape: Demand(WORK, 0, 0, KEY, 0, 0))
    monkeypatch.setattr(Stub, "made", [])
    monkeypatch.setattr(Stub, "fails", None)
    Stub.go_on.set()
    for shape in SHAPES:
        (tmp_path / f"{shape.key_name}.params").touch()
    settings = KindSettings(KeyStore(tmp_path))
    return KeyManager(settings, MemoryBudget(100), ["device"], min_idle_s=60, clock=clock)  # type: ignore[list-item]


def load(manager: KeyManager, *shapes: CircuitShape) -> None:
    for shape in shapes:
        manager.request(shape, PRELOAD_ORDER).result()


def names(manager: KeyManager) -> set[str]:
    return {row.name for row in manager.loaded() if row.state == "ready"}


def test_a_key_is_loaded_once_however_many_ask_and_each_may_wait(manager: KeyManager) -> None:
    Stub.go_on.clear()
    loads = [manager.request(WINDOW, PRELOAD_ORDER) for _ in range(5)]
    assert all(one.running for one in loads) and manager.lease(WINDOW) is None
    assert [row.state for row in manager.loaded()] == ["loading"]
    Stub.go_on.set()
    assert len({id(one.result()) for one in loads}) == 1 and Stub.made[0].loads == 1
    assert manager.preload("window-post-2KiB") == (True, 0)


def test_what_is_idle_longest_goes_first_and_only_when_that_is_enough(manager: KeyManager, clock: Time) -> None:
    load(manager, WINDOW, WINNING)
    assert manager.budget.figures().used == 2 * KEY
    clock.now += 10
    waits = manager.request(LARGER, PRELOAD_ORDER)
    manager.budget.look()
    assert waits.running and names(manager) == {WINDOW.key_name, WINNING.key_name}, "idle for 10 s, not 60"
    assert str(waits.shortage()) == "memory budget short by 20 bytes; behind the key of window-post 2KiB"
    assert not any(row.evictable for row in manager.loaded())
    clock.now += 40
    lease = manager.lease(WINDOW)
    assert lease is not None
    lease.release()
    lease.release()
    clock.now += 10
    assert [row.evictable for row in manager.loaded() if row.state == "ready"] == [False, True]
    manager.budget.look()
    waits.result()
    assert names(manager) == {WINDOW.key_name, LARGER.key_name}, "the other one was used later"
    assert [stub.gone for stub in Stub.made] == [False, True, False]


def test_what_is_leased_or_pinned_stays_and_says_why(manager: KeyManager, clock: Time) -> None:
    load(manager, WINDOW, WINNING)
    lease = manager.lease(WINDOW)
    assert lease is not None and manager.pin("winning-2k")
    clock.now += 1000
    assert manager.evict_idle(1) == 0
    with pytest.raises(KeyInUse, match="in use by an attempt"):
        manager.evict("wpost-2k")
    with pytest.raises(KeyInUse, match="it is pinned"):
        manager.evict("winning-post-2KiB")
    assert [(row.refs, row.pinned, row.evictable) for row in manager.loaded()] in (
        [(1, False, False), (0, True, False)], [(0, True, False), (1, False, False)],
    )  # fmt: skip
    lease.release()
    manager.pin("winning-2k", pinned=False)
    assert manager.evict("wpost-2k") == (True, KEY) and manager.evict("wpost-2k") == (False, 0)
    assert manager.evict(WINNING.key_name) == (True, KEY) and manager.budget.figures().used == 0


def test_tables_that_are_being_made_are_stopped_before_their_key_goes(manager: KeyManager, clock: Time) -> None:
    load(manager, WINDOW)
    making = SimpleNamespace(running=True, stopped=0, join=lambda timeout: None)
    making.stop = lambda: setattr(making, "stopped", making.stopped + 1)
    Stub.made[0].tabulation = making
    clock.now += 1000
    assert not manager.loaded()[0].evictable
    assert manager.evict_idle(KEY) == 0 and making.stopped == 1
    with pytest.raises(KeyInUse, match="its tables are being made"):
        manager.evict("wpost-2k")
    making.running = False
    assert manager.evict_idle(KEY) == KEY


def test_an_attempt_is_never_served_by_its_own_key(manager: KeyManager, clock: Time) -> None:
    load(manager, WINDOW)
    clock.now += 1000
    held = manager.budget.reserve(Claim("another", PRELOAD_ORDER, {"a": 60}))
    claim = manager.attempt_claim(WINDOW, "job 1", PRELOAD_ORDER)
    assert (claim.size, claim.beside, claim.spare) == (WORK, KEY, WINDOW.key_name)
    waiting = manager.budget.enqueue(claim)
    assert not waiting.served and names(manager) == {WINDOW.key_name}
    held.close()
    assert waiting.served


def test_a_load_takes_the_urgency_of_the_most_urgent_who_wants_it(manager: KeyManager) -> None:
    held = manager.budget.reserve(Claim("another", PRELOAD_ORDER, {"a": 90}))
    first, second = manager.request(WINDOW, PRELOAD_ORDER), manager.request(WINNING, PRELOAD_ORDER)
    third = manager.request(WINNING, Order(-4, 0, 1, 0, "job"))
    held.shrink("a", 50)
    second.result()
    third.result()
    assert first.running and not second.running
    first.leave()
    assert manager.budget.figures().waiting == 0, "nobody waits for it, and it has no memory yet"
    assert names(manager) == {WINNING.key_name} and len(manager.loaded()) == 1


def test_a_key_that_cannot_fit_beside_its_work_is_refused_at_once(manager: KeyManager) -> None:
    manager.budget.total = KEY + WORK - 1
    with pytest.raises(BudgetExceeded, match=r"needs 20 bytes of memory beside 40 bytes of its key"):
        manager.request(WINDOW, PRELOAD_ORDER)
    assert manager.loaded() == () and manager.budget.figures().waiting == 0


def test_a_load_that_fails_is_told_to_all_and_tried_again_by_the_next(manager: KeyManager) -> None:
    Stub.fails = KeyNotFound("it is gone")
    Stub.go_on.clear()
    loads = [manager.request(WINDOW, PRELOAD_ORDER) for _ in range(3)]
    Stub.go_on.set()
    for one in loads:
        with pytest.raises(KeyNotFound):
            one.result()
    assert manager.budget.figures().used == 0 and manager.loaded() == ()
    Stub.fails = None
    load(manager, WINDOW)


def test_names_of_circuits() -> None:
    for shape in circuit_shapes():
        names = (circuit_id(shape), shape.label, shape.label.replace(" ", "-"), shape.key_name)
        assert {circuit_of(name) for name in names} == {shape}
    wanted = {"porep-32g", "porep-64g", "snap-32g", "snap-64g", "wpost-32g", "winning-32g"}
    assert wanted <= set(map(circuit_id, circuit_shapes()))
    with pytest.raises(CircuitUnknown, match="'wpost-33g' is none of"):
        circuit_of("wpost-33g")


# -- real keys ------------------------------------------------------------------------------------------------------


class TinyKeys(FilecoinKind):
    """Of each partition its first sector and challenge: the circuit of tiny.params, loaded ahead."""

    def _with_key(self, shape: CircuitShape, works: Any) -> Sequence[PostPartition]:
        parts = [tiny(partition) for partition in works]
        return super()._with_key(parts[0].shape, parts)  # type: ignore[arg-type]


TINY = replace(WINDOW, sectors=1, challenges=1)


class Said:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, str, str | None]] = []

    def __call__(self, name: str, state: Holding, detail: Any, *, reason: str | None = None) -> None:
        self.moves.append((name, state, reason))


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Callable[..., KeyManager]]:
    for suffix in ("params", "vk"):
        shutil.copy(DATA / f"tiny.{suffix}", tmp_path / f"{TINY.key_name}.{suffix}")
    device = discover("prover", jaxconf.devices("cpu"), [0])
    settings = KindSettings(KeyStore(tmp_path), tmp_path)
    yield lambda report, budget=None: KeyManager(settings, budget, device, report, min_idle_s=0)


def test_what_is_evicted_is_gone_from_memory_and_said_so(real: Callable[..., KeyManager]) -> None:
    said = Said()
    manager = real(said)
    loaded = manager.request(TINY, PRELOAD_ORDER).result()
    alive = [weakref.ref(loaded), weakref.ref(loaded.circuit(said)), weakref.ref(loaded._shared.made)]
    assert manager.loaded()[0].nbytes == loaded.nbytes > 0
    reserved = manager.budget.figures().used
    assert reserved == loaded.nbytes + demand(TINY).circuit, "what recording took is given back"
    del loaded
    assert f"{TINY.key_name}.params" in Path("/proc/self/maps").read_text()
    assert manager.evict(TINY.key_name) == (True, reserved)
    assert [ref() for ref in alive] == [None] * 3
    assert f"{TINY.key_name}.params" not in Path("/proc/self/maps").read_text()
    last = {name: state for name, state, _ in said.moves}
    assert last and set(last.values()) == {"evicted"}


def test_a_damaged_key_is_set_aside_and_its_jobs_fail_without_reading_it_again(
    real: Callable[..., KeyManager], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said()
    manager = real(said)
    params = tmp_path / f"{TINY.key_name}.params"
    whole = params.read_bytes()
    params.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(KeyFileDamaged):
        manager.preload_shape(TINY)
    assert [(state, reason) for name, state, reason in said.moves if name.startswith("key:")] == [
        ("loading", None), ("failed", "key_damaged")
    ]  # fmt: skip
    monkeypatch.setattr(KeyStore, "open", lambda *_: pytest.fail("it is read again"))
    kind = TinyKeys(ProofKind.WINDOW_POST, manager.settings, manager)
    for store in (manager.settings.keys, KeyStore(tmp_path)):  # another process knows it too
        assert store.find(TINY.key_name).set_aside
    with pytest.raises(KeyFileDamaged, match=r"set aside: .*cuzk keys check"):
        kind.load(request())
    monkeypatch.undo()
    params.write_bytes(whole)
    assert manager.settings.keys.find(TINY.key_name).set_aside is None, "it is another file now"
    manager.preload_shape(TINY)
    manager.settings.keys.set_aside(TINY.key_name, KeyFileDamaged("a mistake"))
    manager.settings.keys.check(TINY.key_name)
    assert manager.settings.keys.find(TINY.key_name).set_aside is None


def test_a_job_waits_for_its_key_while_workers_are_free_and_is_proved_also_after_an_eviction(
    real: Callable[..., KeyManager],
) -> None:
    manager = real(Said(), MemoryBudget(4 << 30))
    kind, device = TinyKeys(ProofKind.WINDOW_POST, manager.settings, manager), manager._devices
    with pytest.raises(KeyAwaited, match="being loaded"):
        kind.load(request())
    with Rig(devices=device, kinds={"window-post": kind}, keys=manager) as rig:  # type: ignore[arg-type]
        for n in range(2):
            rig.source.jobs.append(ClaimedJob(JobInfo(f"job{n}", "window-post", 1, number=n), request()))
            rig.engine.wake()
            rig.await_job(f"job{n}", "done", patience_s=100)
            eventually(lambda: manager.loaded()[0].refs == 0)
            assert manager.budget.figures().used == manager.budget.figures().lasting > 0
            assert manager.evict(TINY.key_name)[0]
    assert not rig.anomalies and manager.budget.figures().used == 0
    moves = [t for t in rig.log if t.entity is Entity.HOLDING and t.entity_id.endswith("@awaited")]
    assert [t.new for t in moves if t.new == "evicted"] == ["evicted"] * 2
    assert rig.view(Entity.ATTEMPT, "job0:0:1").detail["bytes"] == sum(demand(TINY).attempt().values())
