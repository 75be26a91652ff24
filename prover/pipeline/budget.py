"""The memory budget: bytes are reserved before they are used, by partitions before their synthesis and by keys before
they are loaded.

Who waits is served by `attempts.Order`, first come first served among equals: a small claim never overtakes a large
one that stands before it. A claim is one request for all that its owner will need, so nobody holds bytes while waiting
for more. What is granted is released phase by phase, each once; a handle that is dropped gives its bytes back.
When there is no room, `evict` is asked for what is idle. Every operation takes O(log n) of n who wait, and no
wake-up can be lost: whoever changes something serves the first of those who wait before leaving the lock.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType

from ..errors import CuzkError
from .attempts import Order

#: frees what it can of so many bytes, by closing reservations, but never the holding of that name
Evict = Callable[[int, str | None], object]
#: cancelled claims that may lie in the heap beside as many that wait
_MOST_GONE = 64


#: bytes of a budget that nobody bounded
UNLIMITED = 1 << 62


class BudgetExceeded(CuzkError):
    """The work needs more memory than the whole budget has."""

    code = "memory_budget_exceeded"


class ClaimWithdrawn(Exception):
    """The claim was withdrawn while somebody waited for it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody wants: bytes by phase, in one request."""

    owner: str  # in words: whom others wait behind
    order: Order
    parts: Mapping[str, int]
    beside: int = 0  # bytes that are reserved already, not pinned, and that this is of no use without: its key's
    spare: str | None = None  # the name of that key: it is not evicted for this
    lasting: bool = False  # a key's: held beyond any piece of work

    @property
    def size(self) -> int:
        """Bytes of all phases."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a claim waits: bytes that are missing, and whom it waits behind."""

    nbytes: int
    behind: str | None

    def __str__(self) -> str:
        short = f"memory budget short by {in_words(self.nbytes)}" if self.nbytes else "waits for its turn at the memory"
        return f"{short}; behind {self.behind}" if self.behind else short


@dataclass(frozen=True, slots=True)
class BudgetFigures:
    """The budget at one moment, in bytes; `waiting` counts claims."""

    total: int
    used: int
    lasting: int  # of what is used: keys and recorded circuits
    pinned: int  # of these: what a person wants to stay
    waiting: int

    def gauges(self) -> dict[str, int]:
        """As the journal samples them."""
        return {
            "memory_budget_bytes": self.total, "memory_reserved_bytes": self.used,
            "memory_holdings_bytes": self.lasting, "memory_pinned_bytes": self.pinned, "memory_waiting": self.waiting,
        }  # fmt: skip


@dataclass(slots=True)
class _Held:
    """What a reservation has left of each phase."""

    number: int
    claim: Claim
    left: dict[str, int]
    pinned: bool = False

    @property
    def nbytes(self) -> int:
        return sum(self.left.values())


class Reservation:
    """Bytes that were granted. As a context it closes at the end of the block; dropped, it closes by itself."""

    __slots__ = ("__weakref__", "_budget", "_held")

    def __init__(self, budget: MemoryBudget, held: _Held) -> None:
        self._budget, self._held = budget, held
        # a collection of garbage may come at any moment, also inside the budget's lock
        weakref.finalize(self, budget._abandoned.append, held).atexit = False

    @property
    def nbytes(self) -> int:
        """Bytes that are still held."""
        return self._held.nbytes

    def release(self, phase: str) -> int:
        """Give the bytes of a phase back; how many they were: 0 when that was done before."""
        return self._budget._shrink(self._held, phase, 0)

    def shrink(self, phase: str, nbytes: int) -> int:
        """Keep `nbytes` of a phase that turned out smaller; what was given back."""
        return self._budget._shrink(self._held, phase, nbytes)

    def close(self) -> int:
        """Give everything back; how many bytes they were."""
        return self._budget._close(self._held)

    def pin(self, pinned: bool) -> None:
        """Whether these bytes are to stay: then no claim is served that could only fit without them."""
        self._budget._pin(self._held, pinned)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True, eq=False)
class _Waiter:
    """A claim that waits. Of one that stands (`wake`), its source asks again when it is woken."""

    claim: Claim
    ticket: int
    wake: Callable[[], object] | None = None
    gone: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    granted: Reservation | None = None
    error: Exception | None = None


class Waiting:
    """A claim in the queue of the budget, or served."""

    def __init__(self, budget: MemoryBudget, waiter: _Waiter) -> None:
        self._budget, self._waiter = budget, waiter

    def result(self, timeout: float | None = None) -> Reservation:
        """The reservation, waiting for it. Raises BudgetExceeded, ClaimWithdrawn, TimeoutError."""
        if not self._waiter.ended.wait(timeout):
            raise TimeoutError
        if self._waiter.error is not None:
            raise self._waiter.error
        assert self._waiter.granted is not None
        return self._waiter.granted

    @property
    def served(self) -> bool:
        """Whether it waits no more."""
        return self._waiter.ended.is_set()

    def hasten(self, order: Order) -> None:
        """Somebody more urgent needs the same: it waits in that one's place. A less urgent order changes nothing."""
        self._budget._hasten(self, order)

    def withdraw(self) -> None:
        """It is not wanted any more; what was granted is closed."""
        self._budget._cancel(self)

    def shortage(self) -> Shortage | None:
        """Why it waits; None when it does not."""
        return self._budget._shortage(self)


class MemoryBudget:
    """`total` bytes that reservations share. Thread-safe."""

    def __init__(self, total: int, evict: Evict = lambda _nbytes, _spare: 0) -> None:
        """`evict` is called with the budget's lock, when the first of those who wait lacks so many bytes."""
        self.total = total
        self._evict = evict
        self._lock = threading.RLock()
        self._depth = 0
        self._numbers = itertools.count()
        self._used = self._lasting_bytes = self._pinned_bytes = 0
        self._work: dict[int, _Held] = {}  # in the order in which it was granted
        self._lasting: dict[int, _Held] = {}
        self._heap: list[tuple[Order, int, _Waiter]] = []
        self._waiting = 0
        self._standing: dict[Hashable, _Waiter] = {}
        self._abandoned: deque[_Held] = deque()
        self._wakes: list[Callable[[], object]] = []

    def use_evictor(self, evict: Evict) -> None:
        """From now on `evict` frees what is idle."""
        self._evict = evict

    # -- claims -----------------------------------------------------------------------------------------------------

    def reserve(self, claim: Claim, timeout: float | None = None) -> Reservation:
        """Wait until all of the claim is granted. Raises BudgetExceeded at once, TimeoutError."""
        waiting = self.enqueue(claim)
        try:
            return waiting.result(timeout)
        except TimeoutError:
            waiting.withdraw()
            raise

    def enqueue(self, claim: Claim) -> Waiting:
        """Put a claim among those who wait, or serve it at once. Raises BudgetExceeded."""
        self.refuse_too_large(claim)
        with self._changing():
            waiter = _Waiter(claim, next(self._numbers))
            if claim.size == 0:
                self._serve(waiter)
            else:
                self._push(waiter)
            return Waiting(self, waiter)

    def ask(self, source: Hashable, claim: Claim, wake: Callable[[], object]) -> Reservation | Shortage:
        """The reservation, if it is this claim's turn and there is room now. Otherwise the claim stands for `source` in
        place of any earlier one of it, keeps its place, and `wake` is called (without the budget's lock) when asking
        again may help. Raises BudgetExceeded; then nothing stands."""
        with self._changing():
            try:
                self.refuse_too_large(claim)
            except BudgetExceeded:
                self._drop(source)
                raise
            waiter = self._stand(source, claim, wake)
            if claim.size == 0 or (self._first() is waiter and self._make_room(claim)):
                self._drop(source)
                return self._grant(claim)
            return self._reason(waiter)

    def give_up(self, source: Hashable) -> None:
        """`source` wants nothing now."""
        with self._changing():
            self._drop(source)

    def refuse_too_large(self, claim: Claim) -> None:
        """Raise BudgetExceeded for what can never be served: with what must stay, it is larger than the budget."""
        error = self._refusal(claim)
        if error is not None:
            raise error

    def look(self) -> None:
        """Serve who can be served now: what was idle may have become evictable. To be called now and then."""
        with self._changing():
            pass

    # -- reading ----------------------------------------------------------------------------------------------------

    def figures(self) -> BudgetFigures:
        """How the bytes are used now."""
        with self._lock:
            return BudgetFigures(self.total, self._used, self._lasting_bytes, self._pinned_bytes, self._waiting)

    # -- inside the lock --------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change; at its end whoever can be served is. What is to be woken is, after the lock."""
        wakes: list[Callable[[], object]] = []
        with self._lock:
            self._depth += 1
            try:
                while self._abandoned:
                    self._close(self._abandoned.popleft())
                yield
            finally:  # also when a claim was refused: what stood for its source stands no more
                if self._depth == 1:
                    self._serve_first()
                self._depth -= 1
                if self._depth == 0:
                    wakes, self._wakes = self._wakes, wakes
        for wake in wakes:
            wake()

    def _serve_first(self) -> None:
        """Grant in order as long as there is room."""
        while (waiter := self._first()) is not None:
            error = self._refusal(waiter.claim)  # something may have been pinned since
            if error is None and not self._make_room(waiter.claim):
                return
            if waiter.wake is not None:
                self._wakes.append(waiter.wake)
                return
            self._leave(waiter)
            self._serve(waiter, error)

    def _refusal(self, claim: Claim) -> BudgetExceeded | None:
        if not claim.size or claim.size + claim.beside + self._pinned_bytes <= self.total:
            return None
        said = [f"{claim.owner} needs {in_words(claim.size)} of memory"]
        said += [f"beside {in_words(claim.beside)} of its key"] if claim.beside else []
        said += [f"and {in_words(self._pinned_bytes)} of pinned keys"] if self._pinned_bytes else []
        text = f"{' '.join(said)}; the whole budget is {in_words(self.total)}"
        return BudgetExceeded(text, field="memory.total_budget")

    def _serve(self, waiter: _Waiter, error: BudgetExceeded | None = None) -> None:
        waiter.granted, waiter.error = (None if error else self._grant(waiter.claim)), error
        waiter.ended.set()

    def _make_room(self, claim: Claim) -> bool:
        short = self._used + claim.size - self.total
        if short > 0:
            self._evict(short, claim.spare)
        return self._used + claim.size <= self.total

    def _grant(self, claim: Claim) -> Reservation:
        held = _Held(next(self._numbers), claim, dict(claim.parts))
        (self._lasting if claim.lasting else self._work)[held.number] = held
        self._account(held, claim.size)
        return Reservation(self, held)

    def _account(self, held: _Held, change: int) -> None:
        self._used += change
        self._lasting_bytes += change if held.claim.lasting else 0
        self._pinned_bytes += change if held.pinned else 0

    def _push(self, waiter: _Waiter) -> None:
        heapq.heappush(self._heap, (waiter.claim.order, waiter.ticket, waiter))
        self._waiting += 1

    def _leave(self, waiter: _Waiter) -> None:
        """It waits no more; its entry goes when it comes to the top, or with the others of its kind."""
        if not waiter.gone:
            waiter.gone = True
            self._waiting -= 1
            if len(self._heap) > 2 * self._waiting + _MOST_GONE:
                self._heap = [entry for entry in self._heap if not entry[2].gone]
                heapq.heapify(self._heap)

    def _first(self) -> _Waiter | None:
        while self._heap and self._heap[0][2].gone:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def _stand(self, source: Hashable, claim: Claim, wake: Callable[[], object]) -> _Waiter:
        """The claim that stands for `source` from now on; with the same order it keeps its place."""
        waiter = self._standing.get(source)
        if waiter is None or waiter.claim.order != claim.order:
            self._drop(source)
            waiter = self._standing[source] = _Waiter(claim, next(self._numbers), wake)
            self._push(waiter)
        waiter.claim = claim
        return waiter

    def _drop(self, source: Hashable) -> None:
        waiter = self._standing.pop(source, None)
        if waiter is not None:
            self._leave(waiter)

    def _reason(self, waiter: _Waiter) -> Shortage:
        first = self._first()
        if first is not None and first is not waiter:
            behind: str | None = first.claim.owner
        else:
            held = next(iter(self._work.values()), None) or next(iter(self._lasting.values()), None)
            behind = None if held is None else held.claim.owner
        return Shortage(max(0, self._used + waiter.claim.size - self.total), behind)

    # -- what handles call ------------------------------------------------------------------------------------------

    def _shrink(self, held: _Held, phase: str, nbytes: int) -> int:
        with self._changing():
            before = held.left.get(phase, 0)
            freed = max(0, before - nbytes)
            held.left[phase] = before - freed
            self._account(held, -freed)
            return freed

    def _close(self, held: _Held) -> int:
        with self._changing():
            freed = held.nbytes
            self._account(held, -freed)
            held.left.update(dict.fromkeys(held.left, 0))
            (self._lasting if held.claim.lasting else self._work).pop(held.number, None)
            return freed

    def _pin(self, held: _Held, pinned: bool) -> None:
        with self._changing():
            if held.pinned != pinned:
                held.pinned = pinned
                self._pinned_bytes += held.nbytes if pinned else -held.nbytes

    def _hasten(self, waiting: Waiting, order: Order) -> None:
        with self._changing():
            old = waiting._waiter
            if old.gone or old.ended.is_set() or not order < old.claim.order:
                return
            self._leave(old)
            new = _Waiter(replace(old.claim, order=order), old.ticket, ended=old.ended)
            waiting._waiter = new
            self._push(new)

    def _cancel(self, waiting: Waiting) -> None:
        with self._changing():
            waiter = waiting._waiter
            if waiter.granted is not None:
                waiter.granted.close()
            elif not waiter.ended.is_set():
                self._leave(waiter)
                waiter.error = ClaimWithdrawn()
                waiter.ended.set()

    def _shortage(self, waiting: Waiting) -> Shortage | None:
        with self._lock:
            waiter = waiting._waiter
            return None if waiter.gone or waiter.ended.is_set() else self._reason(waiter)


def in_words(nbytes: int) -> str:
    """A size as people read it."""
    for unit, word in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.1f} {word}"
    return f"{nbytes} bytes"
