"""Instances to synthesise: those of the vectors, and consistent random ones of any shape."""

from __future__ import annotations

import random
from dataclasses import replace
from hashlib import sha256

import numpy as np

from prover.circuits.values import Witness
from prover.filecoin import poseidon
from prover.filecoin.post import CircuitSector, PostInstance, partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import PostShape, ProofKind
from prover.filecoin.vanilla import MerkleProof, PathElement
from tests.circuits.vectors import POST


def canon(name: str) -> int:
    """The published test value of a name."""
    return int.from_bytes(sha256(f"cuzk test vector {name}".encode()).digest(), "little") & ((1 << 254) - 1)


def joined(inputs: np.ndarray, aux: np.ndarray) -> Witness:
    """The witness of these values."""
    return Witness(np.concatenate([inputs, aux]), len(inputs))


def vector_instance(name: str) -> PostInstance:
    """The instance of the tiny, window or winning vector."""
    if name == "tiny":
        first = vector_instance("window").sectors[0]
        return PostInstance((replace(first, paths=first.paths[:1]),))
    (partition,) = partitions(parse_json((POST / "requests" / f"{name}-post.json").read_bytes()))
    return partition.instance


def leaves_of_gadget(count: int) -> list[int]:
    """The leaves of the PoR vectors."""
    return [canon(f"leaf {i}") for i in range(count)]


def merkle_path(leaves: list[int], arities: tuple[int, ...], leaf: int) -> MerkleProof:
    """The path of one leaf of a small tree that is built in full."""
    row, index, path = leaves, leaf, []
    for arity in arities:
        index, digit = divmod(index, arity)
        family = row[index * arity : (index + 1) * arity]
        path.append(PathElement((*family[:digit], *family[digit + 1 :]), digit))
        row = [poseidon.digest(row[i : i + arity]) for i in range(0, len(row), arity)]
    return MerkleProof(row[0], leaves[leaf], tuple(path))


def random_instance(shape: PostShape, seed: int) -> PostInstance:
    """Sectors of consistent random trees of any height: only the nodes on the paths' own branch are made.

    The challenges of a sector share all levels but the lowest, so that they lead to one root.
    """
    rng = random.Random(seed)
    if shape.kind is ProofKind.WINNING_POST:
        sector = _random_sector(replace(shape, challenges=shape.sectors), rng)
        return PostInstance(tuple(replace(sector, paths=(path,)) for path in sector.paths))
    return PostInstance(tuple(_random_sector(shape, rng) for _ in range(shape.sectors)))


def _random_sector(shape: PostShape, rng: random.Random) -> CircuitSector:
    arities = shape.sector.arities
    family = [_element(rng) for _ in range(arities[0])]
    node, upper = poseidon.digest(family), []
    for arity in arities[1:]:
        siblings, digit = [_element(rng) for _ in range(arity - 1)], rng.randrange(arity)
        upper.append(PathElement(tuple(siblings), digit))
        node = poseidon.digest([*siblings[:digit], node, *siblings[digit:]])
    digits = [rng.randrange(arities[0]) for _ in range(shape.challenges)]
    paths = tuple(
        MerkleProof(node, family[digit], (PathElement((*family[:digit], *family[digit + 1 :]), digit), *upper))
        for digit in digits
    )
    comm_c = _element(rng)
    return CircuitSector(poseidon.digest([comm_c, node]), comm_c, node, paths)


def _element(rng: random.Random) -> int:
    return rng.randrange(poseidon.MODULUS)
