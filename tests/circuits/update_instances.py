"""Instances of EmptySectorUpdate: that of the vectors, made anew from the sector's bytes, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from hashlib import sha256

from prover.filecoin import poseidon
from prover.filecoin.poseidon import GENERATION_TAG, MODULUS
from prover.filecoin.shapes import UpdateShape, update_shape
from prover.filecoin.update import UpdateChallenge, UpdateInstance
from prover.filecoin.vanilla import MerkleProof, PathElement
from tests.circuits.vectors import POST, read_json

Row = tuple[int, ...]


def sha256_node(children: Sequence[int]) -> int:
    """Two numbers' SHA-256, modulo 2^254."""
    message = b"".join(child.to_bytes(32, "little") for child in children)
    return int.from_bytes(sha256(message).digest(), "little") % (1 << 254)


@cache
def digest(inputs: Row, tag: int | None = None) -> int:
    """Poseidon; equal subtrees cost nothing."""
    return poseidon.digest(inputs, tag)


class Tree:
    """A Merkle tree with all its rows, the leaves first."""

    def __init__(self, leaves: Row, arities: tuple[int, ...], node: Callable[[Row], int]) -> None:
        self._arities = arities
        self.rows = [leaves]
        for arity in arities:
            below = self.rows[-1]
            self.rows.append(tuple(node(below[i : i + arity]) for i in range(0, len(below), arity)))

    @property
    def root(self) -> int:
        return self.rows[-1][0]

    def path(self, leaf: int) -> MerkleProof:
        path, at = [], leaf
        for row, arity in zip(self.rows, self._arities, strict=False):
            start, digit = at - at % arity, at % arity
            path.append(PathElement(row[start:at] + row[at + 1 : start + arity], digit))
            at //= arity
        return MerkleProof(self.root, self.rows[0][leaf], tuple(path))


class Update:
    """A sector before and after its update, as the definition of SnapDeals has it."""

    def __init__(self, shape: UpdateShape, old: Row, data: Row, comm_c: int) -> None:
        self.shape = shape
        self._comm_c = comm_c
        self._data = Tree(data, (2,) * shape.node_bits, sha256_node)
        self._old = Tree(old, shape.sector.arities, digest)
        self.comm_r_old = digest((comm_c, self._old.root))
        phi = digest((self._data.root, self.comm_r_old), GENERATION_TAG)
        shift = shape.node_bits - shape.h
        encoded = (
            (r + d * digest((phi, i >> shift), GENERATION_TAG)) % MODULUS if d else r
            for i, (r, d) in enumerate(zip(old, data, strict=True))
        )
        self._new = Tree(tuple(encoded), shape.sector.arities, digest)

    @cached_property
    def comm_r_new(self) -> int:
        return digest((self._comm_c, self._new.root))

    @property
    def new_replica(self) -> Row:
        return self._new.rows[0]

    def nodes(self, partition: int) -> list[int]:
        """The challenged nodes: the bits of digests of comm_r_new, then those of the partition."""
        shape, found = self.shape, []
        for number in range(partition * shape.digests, (partition + 1) * shape.digests):
            bits = digest((self.comm_r_new, number), GENERATION_TAG)
            for _ in range(shape.challenges_per_digest):
                found.append(partition << shape.challenge_bits | bits % (1 << shape.challenge_bits))
                bits >>= shape.challenge_bits
        return found[: shape.challenges]

    def instance(self, partition: int) -> UpdateInstance:
        shape = self.shape
        height = shape.challenge_bits - shape.apex_bits
        first = partition * shape.apex_leaves
        upper = self._data.path(partition << shape.challenge_bits).path[shape.challenge_bits :]
        return UpdateInstance(
            partition,
            self.comm_r_old,
            self._data.root,
            self.comm_r_new,
            self._comm_c,
            self._old.root,
            self._new.root,
            self._data.rows[height][first : first + shape.apex_leaves],
            tuple(level.siblings[0] for level in upper),
            tuple(
                UpdateChallenge(node, self._old.path(node), self._data.path(node), self._new.path(node))
                for node in self.nodes(partition)
            ),
        )


def vector_update() -> Update:
    """The 2 KiB update of the vectors."""
    comm_c = int.from_bytes(bytes.fromhex(read_json(POST / "public.json")["snap"]["comm_c"]), "little")
    return Update(update_shape(2048), _nodes("sector1_replica"), _nodes("snap_data_padded"), comm_c)


def random_update(shape: UpdateShape, seed: int, nodes: int = 1024) -> Update:
    """Any old replica, and any data below 2^254; but equal nodes and no data after the first so many `nodes`."""
    rng = random.Random(seed)
    old = [rng.randrange(MODULUS) for _ in range(min(nodes, shape.sector.nodes))]
    data = [rng.randrange(1 << 254) for _ in old]
    others = shape.sector.nodes - len(old)
    return Update(shape, (*old, *(1,) * others), (*data, *(0,) * others), rng.randrange(MODULUS))


def _nodes(name: str) -> Row:
    data = (POST / f"{name}.bin").read_bytes()
    return tuple(int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32))
