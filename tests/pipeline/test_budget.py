"""The memory budget: invariant I16, order without overtaking, no lost wake-up; as a model, and with real threads."""

from __future__ import annotations

import gc
import random
import statistics
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from prover.pipeline.attempts import NO_DEADLINE, Order
from prover.pipeline.budget import BudgetExceeded, Claim, ClaimWithdrawn, MemoryBudget, Reservation, Shortage, Waiting

TOTAL = 100
GIB = 1 << 30
PATIENCE_S = 30.0


def claim(number: int, a: int, rest: int = 0, *, priority: int = 2, beside: int = 0, owner: str = "") -> Claim:
    order = Order(-priority, NO_DEADLINE, number, 0, "job")
    return Claim(owner or f"job {number}", order, {"a": a, "rest": rest}, beside=beside)


class Idle:
    """Holdings that nobody uses: what the evictor frees, all that is needed or nothing."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.held: list[Reservation] = []
        budget.use_evictor(self.evict)

    def evict(self, nbytes: int, spare: str | None) -> None:
        if sum(held.nbytes for held in self.held) < nbytes:
            return
        while nbytes > 0:
            nbytes -= self.held.pop(0).close()


class BudgetMachine(RuleBasedStateMachine):
    """Claims that wait and claims that stand, beside a plain list of what is held."""

    waiting, granted = Bundle("waiting"), Bundle("granted")

    def __init__(self) -> None:
        super().__init__()
        self.budget = MemoryBudget(TOTAL)
        self.idle = Idle(self.budget)
        self.numbers = iter(range(10**9))
        self.open: list[Waiting] = []
        self.held: dict[int, Reservation] = {}
        self.pinned: set[int] = set()
        self.standing: Claim | None = None
        self.woken = False

    def keep(self, reservation: Reservation) -> Reservation:
        self.held[id(reservation)] = reservation
        return reservation

    @rule(target=waiting, a=st.integers(0, 60), rest=st.integers(0, 30), priority=st.integers(1, 4))
    def enqueue(self, a: int, rest: int, priority: int) -> object:
        wanted = claim(next(self.numbers), a, rest, priority=priority)
        before, pinned = self.first(), self.budget.figures().pinned
        try:
            made = self.budget.enqueue(wanted)
        except BudgetExceeded:
            assert wanted.size + pinned > TOTAL
            return multiple()
        assert wanted.size + pinned <= TOTAL or not wanted.size
        assert made.served or wanted.size, "nothing is always free"
        if made.served and wanted.size and before is not None:
            assert (wanted.order, 0) < before, "it overtook"
        self.open.append(made)
        return made

    @rule(target=granted, waiting=consumes(waiting))
    def take(self, waiting: Waiting) -> object:
        if not waiting.served:
            return multiple()
        self.open.remove(waiting)
        try:
            return self.keep(waiting.result(0))
        except (BudgetExceeded, ClaimWithdrawn):
            return multiple()

    @rule(target=granted, a=st.integers(0, 90), priority=st.integers(1, 4))
    def ask(self, a: int, priority: int) -> object:
        if self.standing is None or not random.getrandbits(1):
            self.standing = claim(next(self.numbers), a, priority=priority)
        wanted, self.woken = self.standing, False
        before = min(((w._waiter.claim.order, 0) for w in self.open if not w.served), default=None)
        try:
            answer = self.budget.ask("queue", wanted, self.wake)
        except BudgetExceeded:
            self.standing = None
            return multiple()
        if isinstance(answer, Shortage):
            return multiple()
        assert before is None or not wanted.size or wanted.order <= before[0], "it overtook"
        self.standing = None
        return self.keep(answer)

    def wake(self) -> None:
        assert self.standing is not None
        self.woken = True

    @rule()
    def give_up(self) -> None:
        self.budget.give_up("queue")
        self.standing = None

    @rule(waiting=waiting, priority=st.integers(1, 4))
    def hasten(self, waiting: Waiting, priority: int) -> None:
        waiting.hasten(Order(-priority, NO_DEADLINE, 0, 0, "job"))

    @rule(waiting=consumes(waiting))
    def withdraw(self, waiting: Waiting) -> None:
        waiting.withdraw()
        self.open.remove(waiting)

    @rule(held=granted, phase=st.sampled_from(["a", "rest"]))
    def release(self, held: Reservation, phase: str) -> None:
        freed, before = held.release(phase), held.nbytes
        assert held.release(phase) == 0 and held.nbytes == before, "once only"
        assert freed >= 0

    @rule(held=granted, pinned=st.booleans())
    def pin(self, held: Reservation, pinned: bool) -> None:
        held.pin(pinned)
        (self.pinned.add if pinned else self.pinned.discard)(id(held))

    @rule(held=consumes(granted))
    def close(self, held: Reservation) -> None:
        held.close()
        assert held.close() == held.nbytes == 0
        self.held.pop(id(held), None)
        self.pinned.discard(id(held))

    @precondition(lambda self: not self.pinned)
    @rule(held=consumes(granted))
    def goes_idle(self, held: Reservation) -> None:
        if self.held.pop(id(held), None) is not None:
            self.idle.held.append(held)
            self.budget.look()

    def first(self) -> tuple[Order, int] | None:
        wait = [(w._waiter.claim.order, 1) for w in self.open if not w.served]
        wait += [(self.standing.order, 1)] if self.standing is not None else []
        return min(wait, default=None)

    @invariant()
    def bytes_are_those_of_live_reservations(self) -> None:
        figures = self.budget.figures()
        granted = [w.result(0) for w in self.open if w.served and w._waiter.granted is not None]
        live = {id(r): r for r in [*self.held.values(), *self.idle.held, *granted]}
        assert figures.used == sum(r.nbytes for r in live.values()) <= TOTAL
        assert figures.pinned == sum(r.nbytes for i, r in live.items() if i in self.pinned)

    @invariant()
    def nobody_waits_for_what_is_free(self) -> None:
        """Whoever is first among all that wait does not fit; or stands, and was woken to ask again."""
        waiting = [w for w in self.open if not w.served]
        assert self.budget.figures().waiting == len(waiting) + (self.standing is not None)
        first = self.budget._first()
        if first is None:
            return
        assert (first.claim.order, 1) == self.first()
        room = TOTAL - self.budget.figures().used + sum(held.nbytes for held in self.idle.held)
        waits = first.claim.size > room and first.claim.size + self.budget.figures().pinned <= TOTAL
        assert waits or (first.wake is not None and self.woken)


BudgetMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestBudget = BudgetMachine.TestCase


def test_threads_never_hold_more_than_there_is_and_all_are_served() -> None:
    """Real threads that reserve, release by phase and drop their handles; each takes its turn, none is forgotten."""
    budget, seed = MemoryBudget(TOTAL), random.Random(5)
    sizes = [(seed.randint(0, 60), seed.randint(0, 40)) for _ in range(400)]
    shared, lock, most, done = iter(sizes), threading.Lock(), 0, 0

    def work() -> None:
        nonlocal most, done
        while (size := next_of(shared, lock)) is not None:
            held = budget.reserve(claim(done, *size), PATIENCE_S)
            with lock:
                most = max(most, budget.figures().used)
                done += 1
            held.release("a")
            if done % 3:
                held.close()
            del held

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert done == len(sizes) and most <= TOTAL
    gc.collect()
    budget.look()
    assert budget.figures().used == budget.figures().waiting == 0


def next_of(items: object, lock: threading.Lock) -> tuple[int, int] | None:
    with lock:
        return next(items, None)  # type: ignore[call-overload, no-any-return]


def test_a_claim_larger_than_the_budget_is_refused_at_once_with_the_figures() -> None:
    budget = MemoryBudget(64 * GIB)
    with pytest.raises(BudgetExceeded, match=r"job 1 needs 136\.0 GiB of memory; the whole budget is 64\.0 GiB"):
        budget.reserve(claim(1, 125 * GIB, 11 * GIB))
    with pytest.raises(BudgetExceeded, match=r"14\.0 GiB of memory beside 57\.0 GiB of its key"):
        budget.enqueue(claim(1, 14 * GIB, beside=57 * GIB))
    budget.reserve(claim(2, 60 * GIB)).pin(True)
    assert budget.figures().waiting == 0


def test_who_waits_is_failed_when_a_pin_takes_the_room_for_ever() -> None:
    budget = MemoryBudget(TOTAL)
    key = budget.reserve(claim(1, 50, owner="key"))
    waiting = budget.enqueue(claim(2, 60))
    key.pin(True)
    with pytest.raises(BudgetExceeded, match="50 bytes of pinned keys"):
        waiting.result(0)
    woken: list[int] = []
    other = budget.reserve(claim(3, 40))
    assert isinstance(budget.ask("queue", claim(4, 50), lambda: woken.append(1)), Shortage)
    behind = budget.enqueue(claim(5, 10))
    other.pin(True)
    assert woken, "it is to ask again, and to be refused"
    with pytest.raises(BudgetExceeded, match="90 bytes of pinned keys"):
        budget.ask("queue", claim(4, 50), lambda: None)
    assert behind.served, "what was refused holds nobody up"


def test_a_small_claim_does_not_overtake_a_large_one_and_a_more_urgent_one_does() -> None:
    budget = MemoryBudget(TOTAL)
    held = budget.reserve(claim(1, 60, owner="job 1"))
    large, small = budget.enqueue(claim(2, 80, owner="job 2")), budget.enqueue(claim(3, 10))
    assert str(large.shortage()) == "memory budget short by 40 bytes; behind job 1"
    assert str(small.shortage()) == "waits for its turn at the memory; behind job 2"
    assert isinstance(budget.ask("queue", claim(4, 10), lambda: None), Shortage)
    urgent = budget.enqueue(claim(5, 40, priority=4))
    assert urgent.served and not small.served
    urgent.result().close()
    held.release("a")
    assert large.served and small.served and small.shortage() is None


def test_a_claim_is_hastened_by_who_is_more_urgent() -> None:
    budget = MemoryBudget(TOTAL)
    held, first, last = budget.reserve(claim(1, 90)), budget.enqueue(claim(2, 90)), budget.enqueue(claim(3, 90))
    last.hasten(claim(4, 0, priority=4).order)
    last.hasten(claim(5, 0, priority=1).order)
    held.close()
    assert last.served and not first.served


def test_a_withdrawn_claim_lets_the_next_one_go_and_a_timeout_withdraws() -> None:
    budget = MemoryBudget(TOTAL)
    held, large, small = budget.reserve(claim(1, 50)), budget.enqueue(claim(2, 80)), budget.enqueue(claim(3, 10))
    large.withdraw()
    assert small.served
    with pytest.raises(ClaimWithdrawn):
        large.result(0)
    with pytest.raises(TimeoutError):
        budget.reserve(claim(4, 60), 0.01)
    assert budget.figures().waiting == 0 and held.nbytes == 50


def test_who_stands_is_woken_when_asking_again_helps_and_not_before() -> None:
    budget, woken = MemoryBudget(TOTAL), []
    held = budget.reserve(claim(1, 40, 40))

    def ask() -> Reservation | Shortage:
        return budget.ask("queue", claim(2, 50), lambda: woken.append(1))

    assert isinstance(ask(), Shortage) and isinstance(ask(), Shortage) and budget.figures().waiting == 1
    held.release("rest")
    assert woken and isinstance(ask(), Reservation)
    budget.give_up("queue")
    assert budget.figures().waiting == 0


def test_idle_holdings_are_evicted_only_when_that_is_enough() -> None:
    budget = MemoryBudget(TOTAL)
    idle = Idle(budget)
    work = budget.reserve(claim(1, 50))
    idle.held = [budget.reserve(claim(n, 10)) for n in range(2, 6)]
    waiting = budget.enqueue(claim(7, 60))
    assert not waiting.served and len(idle.held) == 4, "90 bytes are held, 40 of them idle: not enough"
    work.release("a")
    assert waiting.served and len(idle.held) == 4, "nothing was evicted for what is free"
    assert budget.reserve(claim(8, 15), 0).nbytes == 15 and len(idle.held) == 2


def test_a_dropped_handle_gives_its_bytes_back() -> None:
    budget = MemoryBudget(TOTAL)
    held = budget.reserve(claim(1, 90))
    waiting = budget.enqueue(claim(2, 90))
    del held
    gc.collect()
    budget.look()
    assert waiting.served
    with waiting.result() as again:
        assert again.nbytes == 90
    assert budget.figures().used == 0


def test_operations_take_under_100_us_at_10_000_waiters() -> None:
    budget = MemoryBudget(TOTAL)
    held = budget.reserve(claim(0, 60))
    seed = random.Random(7)
    queued = [budget.enqueue(claim(n, 50, priority=seed.randint(1, 4))) for n in range(1, 10_001)]
    numbers = iter(range(20_000, 10**6))

    operations: dict[str, Callable[[], object]] = {
        "enqueue": lambda: budget.enqueue(claim(next(numbers), 50)),
        "ask": lambda: budget.ask("queue", claim(next(numbers), 50, priority=1), lambda: None),
        "withdraw": lambda: queued.pop().withdraw(),
        "hasten": lambda: queued[seed.randrange(len(queued))].hasten(claim(0, 0, priority=4).order),
        "shortage": lambda: queued[0].shortage(),
        "figures": budget.figures,
        "release": lambda: (held.release("rest"), budget.look()),
        "close, and serve the next": lambda: budget._close(next(iter(budget._work.values()))),
    }
    took = {name: measured(operation) for name, operation in operations.items()}
    assert max(took.values()) < 100e-6, took


def measured(operation: Callable[[], object], times: int = 500) -> float:
    """The median, in seconds."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        operation()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)
