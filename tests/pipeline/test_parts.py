"""The engine's small parts: clock, queues, the device's lock, assembler, allocator, timings."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.assembler import Assembler
from prover.pipeline.attempts import Order, order
from prover.pipeline.clock import Clock
from prover.pipeline.devices import DeviceLock
from prover.pipeline.queues import PriorityQueue, Slots
from prover.pipeline.sources import JobInfo
from prover.pipeline.timings import timings
from prover.states import Entity, FleetState, View
from tests.pipeline.controlled import PATIENCE_S


class Hands:
    """Two clocks that the test moves."""

    def __init__(self) -> None:
        self.wall_ns, self.mono_ns = 1_000_000_000, 5_000_000

    def clock(self) -> Clock:
        return Clock(lambda: self.wall_ns, lambda: self.mono_ns)

    def run(self, microseconds: int) -> None:
        self.mono_ns += microseconds * 1000


def test_stamps_run_with_the_monotonic_clock_and_never_repeat() -> None:
    hands = Hands()
    clock = hands.clock()
    first = clock.now_us()
    assert clock.now_us() == first + 1
    hands.wall_ns -= 10**15  # somebody sets the machine's clock back
    hands.run(100)
    assert clock.now_us() == first + 100


def test_the_database_time_is_learnt_and_time_never_goes_back() -> None:
    hands = Hands()
    clock = hands.clock()
    clock.set_database_time(9_000_000, hands.mono_ns)
    assert clock.now_us() == 9_000_000
    clock.set_database_time(8_000_000, hands.mono_ns)
    hands.run(10)
    assert clock.now_us() == 9_000_001, "it waits for the database rather than to go back"
    hands.run(2_000_000)
    assert clock.now_us() == 10_000_010


def test_effects_are_stamped_after_their_causes() -> None:
    clock = Hands().clock()
    seen = clock.now_us() + 10**9
    clock.advance_to(seen)
    assert clock.now_us() == seen + 1
    clock.advance_to(5)
    assert clock.now_us() == seen + 2


def test_the_order_is_priority_deadline_submission_partition() -> None:
    def place(priority: int, deadline: int | None, number: int, partition: int = 0) -> Order:
        return order(JobInfo(f"job{number}", "k", number=number, priority=priority, deadline_us=deadline), partition)

    wanted = [place(4, None, 9), place(3, 5, 8), place(3, 6, 1), place(3, None, 2), place(2, 1, 3), place(2, 1, 3, 1)]
    assert sorted(wanted[::-1]) == wanted


def test_a_closed_queue_lets_everybody_go() -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    queue.put(Order(0, 0, 3, 0, "job"), 3)
    waiter = threading.Thread(target=lambda: taken.append(queue.get(lambda item: False)), daemon=True)
    taken: list[int | None] = []
    waiter.start()
    queue.close()
    waiter.join(PATIENCE_S)
    assert taken == [None] and queue.drop("job", lambda item: True) == [3]


class QueueMachine(RuleBasedStateMachine):
    """Against a list that is sorted anew at each look: nothing is lost, equals keep their order, whatever is done."""

    jobs = st.sampled_from("abc")
    urgencies = st.integers(-4, -1)

    def __init__(self) -> None:
        super().__init__()
        self.queue: PriorityQueue[int] = PriorityQueue()
        self.urgency = dict.fromkeys("abc", -2)
        self.model: list[tuple[Order, int]] = []  # in the order in which they were put
        self.items = itertools.count()

    def place(self, job: str, partition: int = 0) -> Order:
        return Order(self.urgency[job], 0, 7, partition, job)

    @rule(job=jobs, partition=st.integers(0, 1))
    def put(self, job: str, partition: int) -> None:
        item = next(self.items)
        self.queue.put(self.place(job, partition), item)
        self.model.append((self.place(job, partition), item))

    @rule()
    def get(self) -> None:
        if self.model:
            best = min(self.model)
            assert self.queue.best() == best[0] and self.queue.get() == best[1]
            self.model.remove(best)

    @rule(job=jobs, rest=st.integers(0, 2))
    def drop(self, job: str, rest: int) -> None:
        gone = [(order, item) for order, item in self.model if order.job == job and item % 3 >= rest]
        assert sorted(self.queue.drop(job, lambda item: item % 3 >= rest)) == [item for _, item in gone]
        self.model = [entry for entry in self.model if entry not in gone]

    @rule(job=jobs, urgency=urgencies)
    def reorder(self, job: str, urgency: int) -> None:
        self.urgency[job] = urgency
        partitions = {item: order.partition for order, item in self.model}
        self.queue.reorder(job, lambda item: self.place(job, partitions[item]))
        self.model = [
            (self.place(job, order.partition) if order.job == job else order, item) for order, item in self.model
        ]

    @invariant()
    def sizes_agree(self) -> None:
        assert len(self.queue) == len(self.model)
        assert self.queue.best() == min((order for order, _ in self.model), default=None)


test_a_queue_is_a_list_that_is_sorted = QueueMachine.TestCase
test_a_queue_is_a_list_that_is_sorted.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Counted:
    """A place that counts how often it is compared: the cost of a queue's operation, whatever the machine."""

    compared = 0

    def __init__(self, number: int, job: str) -> None:
        self.number, self.job = number, job

    def __lt__(self, other: Counted) -> bool:
        Counted.compared += 1
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return isinstance(other, Counted) and self.number == other.number

    __hash__ = None  # type: ignore[assignment]


def test_what_is_done_to_one_job_costs_little_among_ten_thousand() -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    places = random.Random(1).sample(range(20_000), 10_000)
    for number in places:
        queue.put(Counted(number, f"job-{number}"), number)  # type: ignore[arg-type]

    def cost(what: Callable[[], object]) -> int:
        before = Counted.compared
        what()
        return Counted.compared - before

    some = places[100:600]
    for number in some[:200]:
        assert cost(lambda: queue.reorder(f"job-{number}", lambda item: Counted(-item, f"job-{item}"))) < 100  # type: ignore[arg-type,return-value]  # noqa: B023
    for number in some[200:]:
        assert cost(lambda: queue.drop(f"job-{number}", lambda item: True)) == 0  # noqa: B023
    # what left the middle is passed once: on the average a few comparisons each
    assert cost(lambda: [queue.get() for _ in range(1000)]) < 1000 * 100


def test_slots_are_bounded_and_given_back() -> None:
    slots = Slots(1)
    assert slots.acquire() and slots.free == 0
    slots.release()
    assert slots.wait() and slots.free == 1
    slots.close()
    assert not slots.acquire() and not slots.wait()


def test_the_device_goes_to_the_most_urgent_who_waits() -> None:
    lock, got = DeviceLock("p/0"), []
    held, free = threading.Event(), threading.Event()

    def first() -> None:
        with lock.hold(Order(0, 0, 0, 0, ""), "first"):
            held.set()
            assert free.wait(PATIENCE_S)

    def waiter(urgency: int) -> None:
        with lock.hold(Order(urgency, 0, 0, 0, ""), str(urgency)):
            got.append(urgency)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert held.wait(PATIENCE_S)
    for waiting, urgency in enumerate((-1, -4, -2), 1):
        threads.append(threading.Thread(target=waiter, args=(urgency,)))
        threads[-1].start()
        while lock.waiting < waiting:
            pass
    free.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert got == [-4, -2, -1]


def test_the_device_is_free_again_after_a_failure() -> None:
    lock = DeviceLock("p/0")
    with pytest.raises(ZeroDivisionError), lock.hold(Order(0, 0, 0, 0, ""), "a"):
        raise ZeroDivisionError
    with lock.hold(Order(0, 0, 0, 0, ""), "b"):
        pass


@given(st.permutations(range(5)))
def test_proofs_come_in_any_order_and_leave_in_theirs_once(partitions: list[int]) -> None:
    assembler = Assembler(5)
    for partition in partitions:
        assert assembler.take() is None and not assembler.has(partition)
        assert assembler.insert(partition, bytes([partition]) * 192)
        assert not assembler.insert(partition, bytes(192)), "the first that comes counts"
    assert assembler.missing() == []
    assert assembler.take() == b"".join(bytes([n]) * 192 for n in range(5))
    assert assembler.take() is None


def test_a_proof_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="192 bytes, not 191"):
        Assembler(1).insert(0, bytes(191))


def test_a_device_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="less than 1"):
        allocate([DeviceInfo("p", 0)], 0)


def test_timings_are_sums_over_attempts_and_the_jobs_own_wall_time() -> None:
    state = FleetState()
    state.views[Entity.JOB]["j"] = View("done", {"queued": 0, "loading": 4_000, "running": 10_000, "done": 99_000})
    times = {"synthesizing": 10_000, "ready": 15_000, "device_wait": 20_000, "device": 22_000}
    state.views[Entity.ATTEMPT]["j:0:1"] = View("done", {**times, "finalizing": 52_000, "done": 60_000})
    state.views[Entity.ATTEMPT]["j:1:1"] = View("failed", {**times, "failed": 30_000})
    assert timings(state, "j", ["j:0:1", "j:1:1"]) == {
        "queue_ms": 4, "load_ms": 6, "synthesis_ms": 10, "device_wait_ms": 4, "device_ms": 30, "tail_ms": 8,
        "total_ms": 99,
    }  # fmt: skip
