"""The vectors of the Rust stack that the circuit tests read, and the circuits they belong to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prover.circuits import por, poseidon
from prover.circuits.boolean import allocate_bits, booleans, constant
from prover.circuits.constraint_system import ConstraintSystem, Gadget, Variable
from prover.circuits.fallback_post import fallback_post
from prover.circuits.insertion import RowSelector, insert
from prover.circuits.label import create_label
from prover.circuits.matrices import Matrices
from prover.circuits.sha256 import Sha256Pair, sha256
from prover.filecoin.poseidon import GENERATION_TAG
from prover.filecoin.shapes import PostShape, ProofKind, post_shape, sector_shape

DATA = Path(__file__).parents[1] / "data"
GADGETS = DATA / "gadgets"
POST = DATA / "2k"
#: the large vectors, where they are present
LARGE = Path(__file__).parents[3] / "shared" / "vectors" / "2k"

TINY = PostShape(ProofKind.WINDOW_POST, sector_shape(2048), 1, 1)
SHAPES = {
    "tiny": TINY,
    "window": post_shape(ProofKind.WINDOW_POST, 2048),
    "winning": post_shape(ProofKind.WINNING_POST, 2048),
}


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def read_dump(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as dump:
        return {name: dump[name] for name in dump.files}


def large(name: str) -> Path:
    """A large vector; the test is skipped where it is absent."""
    path = LARGE / name
    if not path.exists():
        pytest.skip(f"needs the large vectors: {name}")
    return path


@dataclass(frozen=True)
class InsertionTest:
    """The insertion vectors' own allocations: element, index bits, siblings, then the gadget."""

    arity: int

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        element = cs.alloc()
        bits = allocate_bits(cs, por.index_bits(self.arity))
        return insert(RowSelector(cs), element, bits, [cs.alloc() for _ in range(self.arity - 1)])


@dataclass(frozen=True)
class PoseidonTest:
    """The Poseidon vectors' own allocations: the inputs, then the gadget."""

    arity: int
    tag: int | None = None

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        inputs = [cs.alloc() for _ in range(self.arity)]
        return cs.instance(poseidon.PoseidonHash(self.arity, self.tag), *inputs)


@dataclass(frozen=True)
class Sha256Test:
    """512 bits, then their digest."""

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return sha256(cs, booleans(allocate_bits(cs, 512)))


@dataclass(frozen=True)
class PairTest:
    """Two numbers, then their digest."""

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return cs.instance(Sha256Pair(), cs.alloc(), cs.alloc())


@dataclass(frozen=True)
class LabelTest:
    """37 parents and the replica's id as bits, layer and node as constants."""

    layer: int
    node: int

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        parents = [booleans(allocate_bits(cs, 256)) for _ in range(37)]
        replica_id = booleans(allocate_bits(cs, 256))
        node = [constant(self.node >> i & 1) for i in reversed(range(64))]
        return (create_label(cs, replica_id, self.layer, node, parents),)


GADGET_VECTORS: dict[str, Gadget] = {
    **{f"insert{arity}": InsertionTest(arity) for arity in (2, 4, 8)},
    **{f"poseidon{arity}": PoseidonTest(arity) for arity in (2, 4, 8, 11)},
    "poseidon2_gen_randomness": PoseidonTest(2, GENERATION_TAG),
    "por_poseidon_8_0_0_private": por.PathToRoot((8, 8)),
    "por_poseidon_8_0_0_public": por.PathToRoot((8, 8), private=False),
    "por_poseidon_8_2_0_private": por.PathToRoot((8, 8, 2)),
    "por_poseidon_8_2_0_public": por.PathToRoot((8, 8, 2), private=False),
}
#: those of which only the digests are kept here
SHA_VECTORS: dict[str, Gadget] = {
    "sha256_512bits": Sha256Test(),
    "sha256_hash2": PairTest(),
    "por_sha256_2_0_0_8leaves_private": por.PathToRoot((2, 2, 2), hasher=por.Hasher.SHA256),
    "por_sha256_2_0_0_8leaves_public": por.PathToRoot((2, 2, 2), private=False, hasher=por.Hasher.SHA256),
    "create_label_37": LabelTest(layer=3, node=22),
}


def record_gadget(name: str, *, templates: bool = True) -> ConstraintSystem:
    cs = ConstraintSystem(templates=templates)
    cs.instance((GADGET_VECTORS | SHA_VECTORS)[name])
    return cs


def record_post(shape: PostShape, *, templates: bool = True) -> ConstraintSystem:
    cs = ConstraintSystem(templates=templates)
    fallback_post(cs, shape)
    return cs


def assert_equals_dump(matrices: Matrices, dump: dict[str, np.ndarray]) -> None:
    """Every row, term and coefficient, in order, and the table of coefficients by first use."""
    assert (matrices.num_inputs, matrices.num_aux) == (dump["num_inputs"], dump["num_aux"])
    for letter, matrix in zip("ABC", (matrices.a, matrices.b, matrices.c), strict=True):
        for part in ("indptr", "col", "coef"):
            np.testing.assert_array_equal(getattr(matrix, part), dump[f"{letter}_{part}"], f"{letter}_{part}")
    np.testing.assert_array_equal(matrices.coefs, dump["coefs"])


def counts(matrices: Matrices) -> dict[str, object]:
    """The figures of a vector's JSON that describe its matrices."""
    a_aux, b_inputs, b_aux = (int(m.sum()) for m in (matrices.a_aux_mask, matrices.b_input_mask, matrices.b_aux_mask))
    return {
        "num_constraints": matrices.num_constraints,
        "num_inputs": matrices.num_inputs,
        "num_aux": matrices.num_aux,
        "domain": matrices.domain,
        "nnz": list(matrices.nnz),
        "num_distinct_coefs": len(matrices.coefs),
        "a_aux_density": a_aux,
        "b_input_density": b_inputs,
        "b_aux_density": b_aux,
        "len_a": matrices.num_inputs + a_aux,
        "len_b": b_inputs + b_aux,
        "len_h": matrices.domain - 1,
        "len_l": matrices.num_aux,
    }
