"""How much a device may hold at a time where its memory is its own: sums and transforms then work in chunks.

A device on which memory was bounded, by `bound`, is given what it works on in chunks of at most so many bytes, whatever
the size of the circuit; the host keeps the rest. A CPU, whose memory is the host's, has no bound unless one was set. A
chunk that does not fit is halved and tried again, and so are all after it; what does not fit at the least size fails as
JAX says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import jax

from prover.algebra import kernels
from prover.algebra.kernels import Place, first_of
from prover.memory import LEAST_CHUNK

log = logging.getLogger(__name__)
T = TypeVar("T")

#: no chunk is made smaller
LEAST: Final = LEAST_CHUNK
#: for a device of its own memory that nobody bounded
_UNSAID: Final = 1 << 30


class Limit:
    """The bound of one device, in bytes. Thread-safe."""

    def __init__(self, nbytes: int, resident: int = 0) -> None:
        """`resident` bytes of rows may stay on the device between sums; what is more is copied for each sum."""
        self.nbytes, self._room, self.most_resident = max(nbytes, LEAST), resident, resident
        self._lock = threading.RLock()  # a collection of garbage may drop rows wherever this thread is

    @property
    def resident(self) -> int:
        """Bytes of rows that stay on the device now."""
        with self._lock:
            return self.most_resident - self._room

    def keep(self, nbytes: int) -> bool:
        """Whether so many bytes more may stay on the device; then they are counted."""
        with self._lock:
            fits = nbytes <= self._room
            self._room -= nbytes if fits else 0
        return fits

    def drop(self, nbytes: int) -> None:
        """So many bytes stay no longer."""
        with self._lock:
            self._room += nbytes

    def halve(self, failed: int) -> bool:
        """Bound chunks by half of one that did not fit; whether that is still large enough. Of several threads whose
        chunks fail, one halves."""
        with self._lock:
            half = failed // 2
            if half < LEAST:
                return False
            if half < self.nbytes:
                log.warning("a chunk of %d bytes does not fit %s: %d from now on", failed, kernels.device(), half)
                self.nbytes = half
            return True


_limits: dict[jax.Device, Limit] = {}
_making = threading.Lock()


def bound(place: Place, limit: Limit | None) -> None:
    """Bound the memory of a device, or of each of several, or (None) leave it as its platform has it."""
    with _making:
        _limits.pop(first_of(place), None)
        if limit is not None:
            _limits[first_of(place)] = limit


def limit_of(place: Place) -> Limit | None:
    """The bound of each device there; None for CPUs that were given none."""
    device = first_of(place)
    with _making:
        if device not in _limits and device.platform != "cpu":
            _limits[device] = Limit(_UNSAID)
        return _limits.get(device)


def limit() -> Limit | None:
    """That of this thread's device."""
    return limit_of(kernels.place())


def apart() -> bool:
    """Whether this thread's device is given what it works on, and does not read the host's memory."""
    return limit() is not None


def fitted(work: Callable[[int], T], most: int) -> T:
    """`work(bytes)` with as many bytes as the device may hold, `most` at most: once more with half as many as long as
    the device has no room. Raises JaxRuntimeError."""
    found = limit()
    if found is None:
        return work(most)
    while True:
        nbytes = min(found.nbytes, max(most, LEAST))
        try:
            return work(nbytes)
        except jax.errors.JaxRuntimeError as error:
            if not _exhausted(error) or not found.halve(nbytes):
                raise


def slices(count: int, unit: int, work: Callable[[slice], T]) -> Iterator[T]:
    """`work` of each slice of `count` items of `unit` bytes each, all in one where there is no bound; no item, no
    slice. Raises JaxRuntimeError."""
    done = 0

    def next_slice(nbytes: int) -> tuple[int, T]:
        end = min(done + max(nbytes // unit, 1), count)
        return end, work(slice(done, end))

    while done < count:
        done, result = fitted(next_slice, (count - done) * unit)
        yield result


def _exhausted(error: Exception) -> bool:
    return "RESOURCE_EXHAUSTED" in str(error)
