"""The least time of a proof on a processor, from what its algorithms do: `python -m bench roofline [KIND ...]`.

Float64 operations are counted in the programs that prove, as JAX traces them: a multiplication, an addition and a
rounding are one each, a fused multiply-add two, as makers of processors count. How often a program runs comes from the
layouts of the sums and the sizes of the transforms. Not counted, so the time is nearly a bound from below: sorting
digits on the host, lanes that idle, the last sums of buckets, launches, and a processor's failing to reach its peak.
Nearly, for digits that are 0 are counted though they add nothing: of random ones one in 2^bits.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params

from bench.asked import ASKED, markdown
from bench.prove import REQUESTS, SECTOR_SIZE
from prover import jaxconf
from prover.algebra import curve, kernels, ntt
from prover.algebra.bases import Windows
from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FP, FR
from prover.algebra.limbs import are_bits
from prover.circuits import definitions
from prover.circuits.synthesis import Circuit
from prover.filecoin.partitions import partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import ProofKind, circuit_shape
from prover.groth16.layouts import Section
from prover.groth16.qap import Wires

OUT = Path(__file__).resolve().parent / "out"
FLOAT = 4  # bytes of a residue in memory
#: of elements: each is one float64 operation
_SINGLE = {"add", "sub", "mul", "div", "neg", "round", "max", "min", "add_any"}
#: bytes that one reduction moves where XLA fuses all but its two matrix products (Fp; others in proportion)
XLA_BYTES = 2200


@dataclass(frozen=True)
class Processor:
    """What a processor does a second, at its peak."""

    name: str
    flops: float
    memory: float  # bytes
    link: float | None = None  # bytes between it and the host; None: it is the host


#: NVIDIA's data sheet of the H200 SXM: 34 TFLOP/s of float64 on its vector units, 4.8 TB/s; PCIe 5.0 x16
H200 = Processor("H200", 34e12, 4.8e12, 64e9)


@dataclass(frozen=True)
class Work:
    """Float64 operations, bytes that must be moved if nothing is moved twice, and Montgomery reductions by field."""

    flops: float = 0
    bytes: float = 0
    fp: float = 0
    fr: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __mul__(self, times: float) -> Work:
        return Work(*(part * times for part in self.parts))

    @property
    def parts(self) -> tuple[float, float, float, float]:
        return self.flops, self.bytes, self.fp, self.fr

    @property
    def xla_bytes(self) -> float:
        """What XLA moves that fuses no matrix product with what surrounds it."""
        return XLA_BYTES * (self.fp + self.fr * FR.k / FP.k)


# -- one call of a program


def traced(function: Callable[..., Any], *shapes: Any) -> Work:
    """The operations and reductions of a call, as it is traced for arrays of these shapes (no bytes)."""
    flops, dots = _count(jax.make_jaxpr(function)(*shapes).jaxpr)
    return Work(flops, 0, *(sum(size for k, size in dots if k == field.k) / (2 * field.k + 1) for field in (FP, FR)))


def _count(jaxpr: Any) -> tuple[float, list[tuple[int, float]]]:
    """Float64 operations, and for each product with one matrix the length of its sums and the size of its output: those
    with a matrix for each residue are sums of transforms, and no reductions."""
    flops, dots = 0.0, list[tuple[int, float]]()
    for step in jaxpr.eqns:
        name, out = step.primitive.name, step.outvars[0].aval
        if name == "dot_general":
            ((contracted,), _), (batched, _) = step.params["dimension_numbers"]
            length = step.invars[0].aval.shape[contracted[0] if isinstance(contracted, tuple) else contracted]
            flops += 2 * length * out.size
            dots += [] if batched else [(length, out.size)]
        elif name in _SINGLE and out.dtype == np.float64:
            flops += out.size
        elif name == "while":
            raise ValueError("how often a loop runs is not known from its trace")
        for inner in jaxprs_in_params(step.params):
            times = step.params["length"] if name == "scan" else 1
            more, further = _count(inner)
            flops += times * more
            dots += [(k, times * size) for k, size in further]
    return flops, dots


def _points(group: Group, coordinates: int) -> Any:
    return jax.ShapeDtypeStruct((2 * FP.k, coordinates, group.degree, 1), np.float64)


def mixed_addition(group: Group) -> Work:
    """A base added to a bucket: its row is read once, with the number that says which."""
    work = traced(curve.add_affine, _points(group, 3), _points(group, 2), jax.ShapeDtypeStruct((1,), np.float64))
    return work + Work(bytes=FLOAT * (group.affine_columns + 1))


def addition(group: Group) -> Work:
    """Two sums added: one is read."""
    return traced(curve.add, _points(group, 3), _points(group, 3)) + Work(bytes=FLOAT * group.columns)


def transform(log2: int, *, scaled: bool) -> Work:
    """2^log2 values by two passes, each of which reads and writes them once. Twiddles and factors are read where they
    are kept; else they are made anew."""
    n1, n2 = 1 << (log2 + 1) // 2, 1 << log2 // 2

    def tile(*sizes: int) -> Any:
        return jax.ShapeDtypeStruct((2 * FR.k, *sizes), np.float32)

    (radix1, rows1), (radix2, rows2) = ntt._radices(n1), ntt._radices(n2)
    first = traced(ntt._first.function, tile(1, radix1, rows1, 1), tile(n1), tile(1, rows1, radix1, 1)) * n2
    scale = tile(1, rows2, radix2, 1) if scaled else None
    second = traced(ntt._second.function, tile(1, radix2, rows2, 1), tile(n2), scale) * n1
    work = first + second + Work(bytes=4 * FLOAT * 2 * FR.k * n1 * n2)
    read = Work(bytes=FLOAT * 2 * FR.k * n1 * n2)
    turned = traced(lambda at, step: FR.mul(at, step), *[jax.ShapeDtypeStruct((2 * FR.k, 1), np.float64)] * 2)
    work += read if log2 <= ntt._MOST_TWIDDLES_KEPT else turned * (n1 * n2)
    if not scaled:
        return work
    return work + (read if log2 <= ntt._MOST_KEPT else traced(ntt._outer.function, tile(n2), tile(1)) * n1)


# -- a proof


def quotient(log2: int) -> Work:
    """a and b to the coset, a b and c back: six transforms, a product, a difference, the way out of Montgomery form."""
    size = 1 << log2
    column = jax.ShapeDtypeStruct((2 * FR.k, 1), np.float32)
    product = traced(ntt._product.function, column, column) + Work(bytes=6 * FLOAT * 2 * FR.k)
    plain = traced(lambda x: FR.mul(x, x), jax.ShapeDtypeStruct((2 * FR.k, 1), np.float64))
    decoded = plain + Work(bytes=FLOAT * 2 * FR.k + FR.size)
    return transform(log2, scaled=True) * 4 + transform(log2, scaled=False) * 2 + (product + decoded) * size


@dataclass(frozen=True)
class Sum:
    """An MSM: of its bases `full` have scalars that are neither 0 nor 1, and `ones` the scalar 1."""

    section: Section
    full: int
    ones: int

    @property
    def windows(self) -> Windows:
        """Those that `FixedBases` takes without tables."""
        layout = self.section.plain()
        return Windows.best(layout.parts * self.full, 1, layout.windows.length)

    @property
    def entries(self) -> int:
        """Bases that are added to buckets, and those whose digit is 0: of random ones one in 2^bits."""
        return self.section.plain().parts * self.full * self.windows.count + self.ones

    @property
    def work(self) -> Work:
        """Two additions a bucket for the weighted sum of each set."""
        of_buckets = addition(self.section.group) * (2 * self.windows.sets * self.windows.buckets)
        return mixed_addition(self.section.group) * self.entries + of_buckets


@dataclass(frozen=True)
class Proof:
    """What one proof of a circuit does."""

    kind: str
    log2: int
    sums: dict[str, Sum]

    @property
    def transforms(self) -> Work:
        return quotient(self.log2)

    @property
    def work(self) -> Work:
        return sum((one.work for one in self.sums.values()), self.transforms)

    @property
    def link_bytes(self) -> int:
        """Between host and GPU: a, b and c there, h back, and the entries of the sums there."""
        return (3 * FLOAT * 2 * FR.k + FR.size << self.log2) + FLOAT * sum(s.entries for s in self.sums.values())


def proof_of(kind: str, cache: Path | None) -> Proof:
    """Counted on the witness of the sample request."""
    shape = circuit_shape(ProofKind(kind), SECTOR_SIZE)
    matrices = Circuit.load(shape, cache).matrices
    instance = partitions(parse_json((REQUESTS / f"{kind}.json").read_bytes()))[0].instance
    z, wires = definitions.witness(shape, instance).columns, Wires.of(matrices)
    bits = are_bits(z)
    ones = bits & (z[:, 0] == 1)
    chosen = {"l": np.arange(matrices.num_inputs, len(z)), "a": wires.a, "b_g1": wires.b, "b_g2": wires.b}
    sums = {"h": Sum(Section(G1, matrices.domain - 1, matrices.domain - 1), matrices.domain - 1, 0)}
    for name, columns in chosen.items():
        full = int(np.count_nonzero(~bits[columns]))
        section = Section(G2 if name == "b_g2" else G1, len(columns), full)
        sums[name] = Sum(section, full, int(np.count_nonzero(ones[columns])))
    return Proof(kind, matrices.domain.bit_length() - 1, sums)


# -- the table


def here(seconds: float = 1.0) -> Processor:
    """This machine's processors, by a matrix product in float64 and by copies, the best of some."""
    a = np.random.default_rng(1).random((2048, 2048))
    big = np.ones(1 << 25)
    halves = np.array_split(big, 2)
    copies = [np.empty_like(half) for half in halves]

    def copy() -> None:
        kernels.in_threads(lambda i: np.copyto(copies[i], halves[i]), range(2), 2)

    flops = 2 * len(a) ** 3 / _least(lambda: a @ a, seconds)
    return Processor("this CPU", flops, 2 * big.nbytes / _least(copy, seconds))


def _least(work: Callable[[], object], seconds: float) -> float:
    found, end = [], time.perf_counter() + seconds
    while len(found) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def bounds(proof: Proof, processor: Processor) -> dict[str, float]:
    """Seconds that each resource takes alone."""
    work = proof.work
    found = {"float64": work.flops / processor.flops, "memory": work.bytes / processor.memory}
    if processor.link is None:
        return found  # its tiles stay in the cache, and it has no link
    as_xla = work.xla_bytes / processor.memory
    return found | {"memory, as XLA fuses": as_xla, "link": proof.link_bytes / processor.link}


def counts_row(proof: Proof) -> list[str]:
    work = proof.work
    entries = {group: sum(s.entries for s in proof.sums.values() if s.section.group is group) for group in (G1, G2)}
    return [
        ASKED[proof.kind].name, f"{work.fr / 1e6:,.0f}", f"{entries[G1] / 1e6:.2f}", f"{entries[G2] / 1e6:.2f}",
        f"{work.fp / 1e6:,.0f}", f"{work.flops / 1e9:,.0f}", f"{work.bytes / 1e9:.2f}", f"{work.xla_bytes / 1e9:,.0f}",
    ]  # fmt: skip


COUNTS = (
    "circuit", "Fr products, M", "additions G1, M", "G2, M", "Fp products, M", "float64, G", "bytes, G", "as XLA, G",
)  # fmt: skip


def bounds_row(proof: Proof, processor: Processor) -> list[str]:
    found = bounds(proof, processor)
    times = [f"{found[name]:.3f}" if name in found else "-" for name in RESOURCES]
    return [ASKED[proof.kind].name, processor.name, *times]


RESOURCES = ("float64", "memory", "memory, as XLA fuses", "link")
BOUNDS = ("circuit", "on", *(f"{name}, s" for name in RESOURCES))


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench roofline", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(ASKED)}; all by default")
    options = parser.parse_args(arguments)
    if not set(options.kinds) <= set(ASKED):
        parser.error(f"the circuits are {', '.join(ASKED)}")
    jaxconf.configure("cpu")
    OUT.mkdir(exist_ok=True)
    cpu = here()
    proofs = [proof_of(kind, OUT) for kind in options.kinds or ASKED]
    print(f"{H200.name}: {H200.flops / 1e12:.0f} TFLOP/s of float64, {H200.memory / 1e12:.1f} TB/s (data sheet)")
    print(f"{cpu.name}: {cpu.flops / 1e9:.0f} GFLOP/s of float64, {cpu.memory / 1e9:.1f} GB/s (measured)\n")
    print(markdown(COUNTS, [counts_row(proof) for proof in proofs]) + "\n")
    print(markdown(BOUNDS, [bounds_row(proof, processor) for proof in proofs for processor in (H200, cpu)]))


if __name__ == "__main__":
    main(sys.argv[1:])
