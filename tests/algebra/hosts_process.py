"""A process of a sum over two (tests/algebra/test_hosts.py): sums of scalars that are bits, equal and random, then what
its task says. Prints a line for each sum: the point, and the entries that each of its devices added."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections import Counter
from typing import Any

import jax
import numpy as np

from prover import jaxconf
from prover.algebra import kernels, lanes
from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FR
from prover.algebra.hosts import HostLost
from prover.algebra.kernels import Kernel
from prover.algebra.limbs import Bytes
from prover.algebra.mesh import DeviceMesh
from prover.algebra.msm import FixedBases
from prover.errors import CuzkError
from tests.algebra.conftest import Curve

COUNT = 331
#: the first sum compiles
PATIENCE_S = 100
SHORT_S = 5


def scalars(kind: str) -> list[int]:
    """`COUNT` scalars, the same in every process."""
    rng = random.Random(kind)
    makers = {"bits": lambda: rng.randrange(2), "equal": lambda: 77 << 150, "random": lambda: rng.randrange(FR.p)}
    return [makers[kind]() for _ in range(COUNT)]


def bases(group: Group) -> Bytes:
    """`COUNT` bases, one of which is infinity."""
    data = Curve(group).progression(COUNT).copy()
    data[7] = 0
    data[7, 0] = 0x40
    return data


def counted() -> Counter[jax.Device]:
    """The entries that each device is given from now on."""
    entries: Counter[jax.Device] = Counter()
    call, counting = Kernel.__call__, threading.Lock()

    def watched(kernel: Kernel, *arguments: Any, **static: Any) -> Any:
        if kernel is lanes.add_steps:
            _, _, chosen, steps = arguments
            tiles = np.split(steps, len(chosen.addressable_shards))
            for shard, counts in zip(chosen.addressable_shards, tiles, strict=True):
                inside = np.arange(shard.data.shape[1])[:, None] < counts[:, None, None]
                with counting:  # two threads drive the devices
                    entries[shard.device] += int(np.count_nonzero(inside & (shard.data != 0)))
        return call(kernel, *arguments, **static)

    Kernel.__call__ = watched  # type: ignore[method-assign]
    return entries


def main(coordinator: str, process: int, task: str, cache: str) -> None:
    hosts = jaxconf.Hosts(coordinator, 2, process, patience_s=PATIENCE_S)
    devices = jaxconf.configure("cpu", 2, cache, hosts)
    mesh = DeviceMesh.of(jaxconf.mesh_devices("cpu"))
    assert len(devices) == 2 and len(mesh.devices) == 4 and mesh.local == tuple(devices)
    entries = counted()

    def summed(made: FixedBases, values: list[int], patience_s: float = PATIENCE_S) -> None:
        entries.clear()
        with kernels.on(DeviceMesh.of(mesh.devices, patience_s)):
            point = made.msm(FR.bytes_of(values), threads=2)
        print("sum", point.tobytes().hex(), *(entries[device] for device in devices), flush=True)

    of_g1 = FixedBases(bases(G1), G1, images=False)
    for kind in ("bits", "equal", "random") if task == "agree" else ("bits",):
        summed(of_g1, scalars(kind))
    if task == "agree":
        summed(FixedBases(bases(G2), G2), scalars("random"))
    if process == 1 and task in ("killed", "frozen"):
        os.kill(os.getpid(), signal.SIGKILL if task == "killed" else signal.SIGSTOP)
    if process == 0 and task == "first killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task != "agree":
        summed(of_g1, scalars("equal" if process or task != "differ" else "random"), SHORT_S)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
    except CuzkError as error:
        print("error", error.code, flush=True)
        if isinstance(error, HostLost):
            jaxconf.Hosts.end_without_the_others(1)
        sys.exit(1)
