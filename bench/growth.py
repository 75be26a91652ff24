"""How a proof's time and memory grow: WindowPoSt circuits of 2^15 to 2^20 rows, each with keys of its own.

`python -m bench growth [LOG2 ...] [--proofs N]`. Two circuit sectors of 15 challenges each fill 99 % of 2^15 rows, and
twice as many the next power of two: the same density at each size. Each size has its own process; keys stay in
bench/out. Asked: a constraint costs at 2^20 at most 1.1 times what it costs at 2^15, in time and in memory.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.asked import markdown
from bench.proof import OUT, session
from bench.prove import Bench, answer
from prover import jaxconf
from prover.circuits import definitions
from prover.circuits.synthesis import Instance
from prover.filecoin import poseidon
from prover.filecoin.post import CircuitSector, PostInstance
from prover.filecoin.shapes import BASE_ARITY, KIB, PostShape, ProofKind, sector_shape
from prover.filecoin.vanilla import MerkleProof, PathElement

CHALLENGES = 15
#: log2 of the rows that one circuit sector fills
SECTOR_LOG2 = 14
SIZES = (15, 17, 20)
ASKED = 1.1
HEAD = ("rows", "constraints", "s", "CPU s", "us a constraint", "x", "peak MiB", "above idle", "KiB a constraint", "x")


class Growing(Bench):
    """A WindowPoSt of random sectors."""

    shape: PostShape

    def made_instance(self) -> tuple[Instance, tuple[int, ...]]:
        rng = random.Random(self.shape.sectors)
        instance = PostInstance(tuple(random_sector(self.shape, rng) for _ in range(self.shape.sectors)))
        inputs = definitions.witness(self.shape, instance).inputs
        return instance, tuple(int.from_bytes(row.tobytes(), "little") for row in inputs[1:])


def shape_of(log2: int) -> PostShape:
    """The circuit of nearly 2^log2 rows."""
    return PostShape(ProofKind.WINDOW_POST, sector_shape(2 * KIB), 1 << (log2 - SECTOR_LOG2), CHALLENGES)


def random_sector(shape: PostShape, rng: random.Random) -> CircuitSector:
    """A sector of random leaves, whole tree, challenged at random."""
    rows = [[rng.randrange(poseidon.MODULUS) for _ in range(shape.sector.nodes)]]
    while len(rows[-1]) > 1:
        below = rows[-1]
        rows.append([poseidon.digest(below[i : i + BASE_ARITY]) for i in range(0, len(below), BASE_ARITY)])
    comm_c, (root,) = rng.randrange(poseidon.MODULUS), rows[-1]
    paths = tuple(_path(rows, rng.randrange(shape.sector.nodes)) for _ in range(shape.challenges))
    return CircuitSector(poseidon.digest([comm_c, root]), comm_c, root, paths)


def _path(rows: list[list[int]], leaf: int) -> MerkleProof:
    path, index = [], leaf
    for row in rows[:-1]:
        index, digit = divmod(index, BASE_ARITY)
        family = row[index * BASE_ARITY : (index + 1) * BASE_ARITY]
        path.append(PathElement((*family[:digit], *family[digit + 1 :]), digit))
    return MerkleProof(rows[-1][0], rows[0][leaf], tuple(path))


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench growth", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, metavar="LOG2", help="default: 15 17 20, the key of 2^20 minutes")
    parser.add_argument("--proofs", type=int, default=2, help="of each size; the best counts")
    options = parser.parse_args(arguments)
    found = []
    for log2 in options.sizes or SIZES:
        found.append(measure(log2, options.proofs))
        print(f"2^{log2}: {found[-1]}", file=sys.stderr, flush=True)
    print(table(found))


def measure(log2: int, proofs: int) -> dict[str, Any]:
    """One size; its key is made when it is absent."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:

        def command(step: str) -> list[str]:
            return [sys.executable, "-m", "bench.growth", "--child", str(log2), step, str(OUT), cache]

        if not (OUT / f"{shape_of(log2).key_name}.params").exists():
            made = subprocess.run(command("setup"), check=True, stdout=subprocess.PIPE, text=True)
            print(f"2^{log2}: set-up {json.loads(made.stdout)['setup_s']:.0f} s", file=sys.stderr, flush=True)
        with session(command("session")) as ask:
            loaded = ask("load")
            best = min((ask("prove") for _ in range(proofs)), key=lambda proof: float(proof["whole_s"]))
            return {"log2": log2, "constraints": loaded["constraints"]} | best | ask("memory")


def table(found: list[dict[str, Any]]) -> str:
    """A row a size; x: times what a constraint of the first one costs."""

    def costs(one: dict[str, Any]) -> tuple[float, float]:
        return one["whole_s"] / one["constraints"] * 1e6, one["peak_mib"] / one["constraints"] * 1024

    first, rows = costs(found[0]), []
    for one in found:
        time, memory = costs(one)
        rows.append([
            f"2^{one['log2']}", f"{one['constraints']:,}", f"{one['whole_s']:.2f}", f"{one['cpu_s']:.2f}",
            f"{time:.1f}", f"{time / first[0]:.2f}", f"{one['peak_mib']:.0f}",
            f"{one['peak_mib'] - one['idle_mib']:.0f}", f"{memory:.2f}", f"{memory / first[1]:.2f}",
        ])  # fmt: skip
    return f"{markdown(HEAD, rows)}\nasked at 2^20: {ASKED} times 2^15, a constraint, at most"


def _child(log2: str, step: str, out: str, cache: str) -> None:
    device = jaxconf.configure("cpu", cache_dir=cache)[0]
    answer(Growing(shape_of(int(log2)), Path(out), device), step)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
    else:
        main(sys.argv[1:])
