"""The sums and transforms of one proof beside py-arkworks: `python -m bench.algebra [--circuit window] [--tables N]`.

Wall time is a ratio only on an idle machine; CPU time holds on a shared one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import py_arkworks_bls12381 as arkworks

from prover import jaxconf
from prover.algebra import multiples
from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FR
from prover.algebra.limbs import Bytes
from prover.algebra.msm import FixedBases
from prover.algebra.ntt import Domain

#: (log2 of the domain, bases of l, of a, of b_g1 and b_g2)
CIRCUITS = {"window": (15, 22128, 16793, 16029), "winning": (17, 91674, 69500, 66400)}


def measure(work: Callable[[], object], repeat: int) -> tuple[float, float]:
    """The least wall time and the least CPU time of `repeat` calls, in seconds."""
    walls, busy = [], []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        busy.append(time.process_time() - cpu)
    return min(walls), min(busy)


def random_scalars(count: int, seed: int) -> Bytes:
    data = np.random.default_rng(seed).integers(0, 256, (count, 32), np.uint8)
    data[:, 31] &= 0x3F
    return data


def peer_of(group: Group, points: Bytes, scalars: Bytes) -> Callable[[], Any]:
    kind = arkworks.G1Point if group is G1 else arkworks.G2Point

    def swapped(data: bytes) -> bytes:
        return data if group is G1 else data[48:96] + data[:48] + data[144:] + data[96:144]

    bases = [kind.from_xy_bytes_unchecked_be(swapped(row.tobytes())) for row in points]
    factors = [arkworks.Scalar.from_le_bytes(row.tobytes()) for row in scalars]
    return lambda: kind.multiexp_unchecked(bases, factors)


def report(name: str, ours: tuple[float, float], peer: float | None = None) -> None:
    ratio = f", py-arkworks {peer * 1e3:6.0f} ms of one core: {ours[1] / peer:4.2f}x its CPU time" if peer else ""
    print(f"{name:24} {ours[0] * 1e3:7.0f} ms, {ours[1] * 1e3:6.0f} ms CPU{ratio}", flush=True)


def bench_sum(name: str, group: Group, count: int, tables: int, threads: int, repeat: int) -> float:
    """One sum beside the peer's; its CPU seconds."""
    points, scalars = multiples.of_generator(group, random_scalars(count, 1), threads), random_scalars(count, 2)
    began = time.perf_counter()
    bases = FixedBases(points, group, tables=tables, threads=threads)
    built = time.perf_counter() - began
    bases.msm(scalars, threads)
    ours = measure(lambda: bases.msm(scalars, threads), repeat)
    peer = measure(peer_of(group, points, scalars), repeat)
    report(f"{name} {group.name} {count}", ours, peer[1])
    w = bases.windows
    print(f"{'':24} {w.bits} bits, {w.sets} sets, {bases.nbytes >> 20} MiB, built in {built:.1f} s")
    return ours[1]


def bench_sums(circuit: str, tables: int, threads: int, repeat: int) -> float:
    """The five sums of a proof; their CPU seconds."""
    log2, wires, a, b = CIRCUITS[circuit]
    sums = [("h", G1, (1 << log2) - 1), ("l", G1, wires), ("a", G1, a), ("b_g1", G1, b), ("b_g2", G2, b)]
    return sum(bench_sum(*one, tables, threads, repeat) for one in sums)


def bench_quotient(circuit: str, threads: int, repeat: int) -> float:
    log2 = CIRCUITS[circuit][0]
    domain = Domain(log2)
    a, b, c = (FR.encode(random_scalars(1 << log2, i)) for i in range(3))
    domain.quotient(a, b, c, threads)
    ours = measure(lambda: domain.quotient(a, b, c, threads), repeat)
    report(f"quotient 2^{log2}", ours)
    return ours[1]


def bench_setup(threads: int) -> None:
    for group, count in ((G1, 20000), (G2, 5000)):
        scalars = random_scalars(count, 3)
        multiples.of_generator(group, scalars, threads)
        ours = measure(lambda g=group, s=scalars: multiples.of_generator(g, s, threads), 2)
        report(f"multiples {group.name} {count}", ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--circuit", choices=sorted(CIRCUITS), default="window")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    jaxconf.configure("cpu")
    total = bench_quotient(options.circuit, options.threads, options.repeat)
    total += bench_sums(options.circuit, options.tables, options.threads, options.repeat)
    idle = total / options.threads
    print(f"{'all of one proof':24} {total:.2f} s CPU, so {idle:.2f} s on {options.threads} idle cores")
    bench_setup(options.threads)


if __name__ == "__main__":
    main()
