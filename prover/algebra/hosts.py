"""One sum on several processes, of several machines as a rule: each adds its part of the entries, and one point of each
is gathered (`lax.all_gather` under `jax.shard_map`, over the network) and added up, in every process alike.

All have all bases and are given the same scalars. A digest of the scalars, and of how many entries were cut at a time,
travels with the point, so that processes find out that are not at the same sum, or whose chunks differ. Sums are made
one after the other, in the same order everywhere.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

import jax
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from prover.algebra import small
from prover.algebra.buckets import Ints
from prover.algebra.curve import Group
from prover.algebra.fields import FP
from prover.algebra.kernels import place
from prover.algebra.limbs import Bytes
from prover.algebra.mesh import HOSTS, DeviceMesh
from prover.algebra.points import Rows
from prover.algebra.table import Entries
from prover.errors import CuzkError

T = TypeVar("T")
_DIGEST: Final = 32
_OF_HOSTS: Final = PartitionSpec(HOSTS)  # type: ignore[no-untyped-call]
_EVERYWHERE: Final = PartitionSpec()  # type: ignore[no-untyped-call]

#: one gather at a time in a process: two at once could meet the other's in another process
_gathering = threading.Lock()
#: what this thread cut for the sum it is at
_cuts = threading.local()


class HostLost(CuzkError):
    """Another process of the same sum died, or did not give its part in time: this one should end too."""

    code = "host_lost"
    retryable = True


class HostsDisagree(CuzkError):
    """The processes of a sum were given different scalars, make sums in different orders, or in different chunks."""

    code = "hosts_disagree"


def begin() -> None:
    """This thread begins a sum."""
    _cuts.sizes = []


def own_part(entries: Entries, sizes: Ints) -> tuple[Entries, Ints]:
    """Of entries sorted by bucket those that this process adds, and how many of them are in each bucket: all of them
    where the place of this thread is in one process."""
    mesh = _spanning()
    if mesh is None:
        return entries, sizes
    _cuts.sizes.append(len(entries))
    part = mesh.own(len(entries))
    ends = np.cumsum(sizes)
    own: Ints = np.clip(ends, part.start, part.stop) - np.clip(ends - sizes, part.start, part.stop)
    return entries[part], own


def added_up(group: Group, point: small.Point, scalars: Bytes) -> small.Point:
    """The sum of all processes' points: `point` itself where the place of this thread is in one process.

    Raises HostLost within `DeviceMesh.patience_s` of being asked, HostsDisagree.
    """
    mesh = _spanning()
    if mesh is None:
        return point
    digest = hashlib.blake2b(np.ascontiguousarray(scalars).data, digest_size=_DIGEST)
    digest.update(np.array(_cuts.sizes, "<i8").tobytes())
    own = np.concatenate([_row(group, point), np.frombuffer(digest.digest(), np.uint8)]).astype(np.float32)[None]
    with _gathering:
        rows = _within(mesh.patience_s, lambda: _gather(mesh, own))
    if (rows[:, -_DIGEST:] != own[:, -_DIGEST:]).any():
        raise HostsDisagree("want the same scalars, order of sums and chunks in every process", field="scalars")
    points = small.from_rows(group, np.ascontiguousarray(rows[:, :-_DIGEST]))
    return functools.reduce(lambda p, q: small.add(p, q, group.degree), points)


def _spanning() -> DeviceMesh | None:
    """The place of this thread, if it spans several processes."""
    where = place()
    return where if isinstance(where, DeviceMesh) and len(set(where.processes)) > 1 else None


def _row(group: Group, point: small.Point) -> Rows:
    """The projective row of a point."""
    return FP.encode_ints32([c for pair in point for c in pair[: group.degree]]).reshape(-1)


def _gather(mesh: DeviceMesh, own: Rows) -> Rows:
    """float32[1, n] of each process -> float32[processes, n]."""
    hosts = mesh.hosts
    shape = (hosts.size, own.shape[1])
    mine = [jax.device_put(own, device) for device in hosts.local_devices]
    rows = jax.make_array_from_single_device_arrays(shape, NamedSharding(hosts, _OF_HOSTS), mine)
    gathered: Rows = np.asarray(_all_gather(hosts)(rows))
    return gathered


@functools.lru_cache(maxsize=4)
def _all_gather(hosts: jax.sharding.Mesh) -> Callable[[jax.Array], jax.Array]:
    def everywhere(row: jax.Array) -> jax.Array:
        rows: jax.Array = lax.all_gather(row, HOSTS, tiled=True)
        return rows

    # that a gathered array is the same everywhere is more than the check can see
    over = jax.shard_map(everywhere, mesh=hosts, in_specs=_OF_HOSTS, out_specs=_EVERYWHERE, check_vma=False)
    program: Callable[[jax.Array], jax.Array] = jax.jit(over)
    return program


def _within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` gives, or HostLost. A gather whose peer hangs ends by itself never: its thread is left behind."""
    ended: SimpleQueue[T | Exception] = SimpleQueue()

    def run() -> None:
        try:
            ended.put(work())
        except Exception as error:
            ended.put(error)

    threading.Thread(target=run, name="gather", daemon=True).start()
    try:
        result = ended.get(timeout=seconds)
    except Empty:
        raise HostLost(f"no part of the sum came from another process within {seconds:g} s", field="hosts") from None
    if isinstance(result, Exception):
        raise HostLost(f"the gather failed: {result}", field="hosts") from result
    return result
