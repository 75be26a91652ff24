"""The vectors that these tests judge by (tests/data/README.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from prover.algebra.constants import R
from prover.algebra.fields import FR
from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.fallback_post import fallback_post
from prover.circuits.matrices import Matrices, SparseRows, matrices_of
from prover.circuits.witness import fallback_post_witness
from prover.filecoin.post import PostPartition, partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.keys import Parameters, VerifyingKey
from prover.groth16.qap import Bytes, to_bytes
from prover.groth16.setup import Scalars, setup
from tests.groth16 import toy

DATA = Path(__file__).parent.parent / "data"
KINDS = ("tiny", "window", "winning")


def canon(name: str) -> int:
    """The canonical value of a name: 254 bits of its sha256."""
    digest = int.from_bytes(sha256(f"cuzk test vector {name}".encode()).digest(), "little")
    return digest & ((1 << 254) - 1)


def load(name: str) -> Any:
    return json.loads((DATA / "2k" / name).read_text())


def verifying_key(kind: str) -> VerifyingKey:
    return VerifyingKey.parse((DATA / "2k" / f"{kind}.vk").read_bytes())


def published_proofs(kind: str) -> tuple[list[int], list[bytes]]:
    """Public inputs, and the proofs of r, s = canon and of r = s = 0."""
    vector = load(f"{kind}.proof.json")
    inputs = [int(value, 16) for value in vector["public_inputs"]]
    return inputs, [bytes.fromhex(vector["proof"]), bytes.fromhex(vector["proof_r0_s0"])]


def arrays(kind: str) -> dict[str, Any]:
    """The recorded circuit and its witness, as the npz has them."""
    with np.load(DATA / "2k" / f"{kind}.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def recorded(kind: str) -> Matrices:
    """The circuit's matrices as the vectors have them; those of winning, which are not carried, are recorded anew."""
    if kind == "winning":
        system = ConstraintSystem()
        fallback_post(system, post_shape(ProofKind.WINNING_POST, 2048))
        return matrices_of(system)
    data = arrays(kind)
    a, b, c = (
        SparseRows(data[f"{m}_indptr"].astype(np.int32), data[f"{m}_col"].astype(np.int32), data[f"{m}_coef"])
        for m in "ABC"
    )
    return Matrices(int(data["num_inputs"]), int(data["num_aux"]), a, b, c, data["coefs"])


@cache
def parameters(kind: str) -> Parameters:
    """The proving key of a vector: tiny's is carried, the others are made (and compared by test_setup)."""
    if kind == "tiny":
        return Parameters.open(DATA / "2k" / "tiny.params")
    return setup(recorded(kind), Scalars.from_hex(load(f"{kind}.setup.json")["scalars"]))


def assignment(kind: str) -> toy.Wired:
    """The witness of a vector, with a, b and c by plain integers."""
    if kind == "winning":
        request = parse_json((DATA / "2k" / "requests" / "winning-post.json").read_bytes())
        return assigned(recorded(kind), *partitions(request))
    data = arrays(kind)
    return evaluated(recorded(kind), data["inputs"], data["aux"])


def deadline_assignments() -> Iterator[toy.Wired]:
    """The witness of each partition of the deadline, from its request."""
    request = parse_json((DATA / "deadline" / "request.json").read_bytes())
    matrices = recorded("window")
    return (assigned(matrices, partition) for partition in partitions(request))


def assigned(matrices: Matrices, partition: PostPartition) -> toy.Wired:
    witness = fallback_post_witness(partition.shape, partition.instance)
    return evaluated(matrices, witness.inputs, witness.aux)


def evaluated(matrices: Matrices, inputs: Bytes, aux: Bytes) -> toy.Wired:
    """a, b, c row by row on plain integers."""
    wires = [int.from_bytes(row.tobytes(), "little") for row in (*inputs, *aux)]
    coefs = [int.from_bytes(row.tobytes(), "little") for row in matrices.coefs]
    vectors = []
    for matrix in (matrices.a, matrices.b, matrices.c):
        terms = [wires[i] * coefs[k] for i, k in zip(matrix.col.tolist(), matrix.coef.tolist(), strict=True)]
        starts = matrix.indptr.tolist()
        values = [sum(terms[start:end]) % R for start, end in pairwise(starts)]
        input_rows = wires[: matrices.num_inputs] if matrix is matrices.a else [0] * matrices.num_inputs
        vectors.append(FR.encode(to_bytes(values + input_rows)))
    return toy.Wired(inputs, aux, *vectors)
