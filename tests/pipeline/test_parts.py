"""The engine's small parts: clock, queues, the device's lock, assembler, allocator, timings."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 1))))
def test_nothing_that_is_put_is_lost_and_equals_keep_their_order(places: list[tuple[int, int, int]]) -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    for item, (urgency, number, partition) in enumerate(places):
        queue.put(Order(urgency, 0, number, partition, ""), item)
    taken = [queue.get() for _ in places]
    assert taken == [item for item, _ in sorted(enumerate(places), key=lambda pair: (pair[1], pair[0]))]
    assert len(queue) == 0


def test_items_can_be_dropped_and_a_closed_queue_lets_everybody_go() -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    for item in range(5):
        queue.put(Order(0, 0, item, 0, ""), item)
    assert queue.drop(lambda item: item % 2 == 0) == [0, 2, 4]
    assert queue.best() == Order(0, 0, 1, 0, "") and queue.get() == 1
    waiter = threading.Thread(target=lambda: taken.append(queue.get(lambda: False)), daemon=True)
    taken: list[int | None] = []
    waiter.start()
    queue.close()
    waiter.join(PATIENCE_S)
    assert taken == [None] and queue.drop(lambda item: True) == [3]


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
