"""EmptySectorUpdate, the circuit of SnapDeals: a sector's new replica encodes new data over the old replica.

Public are the partition with the choice of h, and comm_r_old, comm_d_new, comm_r_new. The challenged nodes are bits of
hashes of comm_r_new; for each the new replica's leaf is leaf_old + leaf_data * rho, with paths to all three roots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prover.circuits.boolean import allocate_bits
from prover.circuits.constraint_system import ONE, UNIT, ConstraintSystem, Variable, combination, single
from prover.circuits.insertion import RowSelector
from prover.circuits.num import (
    add,
    allocate_public,
    allocate_sum,
    enforce_equal,
    multiply,
    pack_bits,
    packed,
    to_allocated_bits,
)
from prover.circuits.por import Hasher, PathOfBits, taken
from prover.circuits.poseidon import PoseidonHash
from prover.circuits.sha256 import Sha256Pair
from prover.filecoin.poseidon import GENERATION_TAG
from prover.filecoin.shapes import UpdateShape

Variables = Sequence[Variable]


def empty_sector_update(cs: ConstraintSystem, shape: UpdateShape) -> None:
    """The whole circuit. Inputs: ONE, partition and h, comm_r_old, comm_d_new, comm_r_new."""
    head = _Head(cs, shape)
    digests = _challenge_bits(cs, shape, head)
    for number in range(shape.challenges):
        cs.note(f"challenge {number}")
        variables = (*head.challenge_variables, *next(digests))
        cs.instance(UpdateChallengeRows(shape), *variables)


class _Head:
    """What all challenges share."""

    def __init__(self, cs: ConstraintSystem, shape: UpdateShape) -> None:
        cs.note("partition and h")
        self.partition_bits, self.choice = _partition_and_h(cs, shape)
        self.partition = pack_bits(cs, self.partition_bits)
        cs.note("public inputs")
        comm_r_old, comm_d_new = allocate_public(cs), allocate_public(cs)
        self.comm_r_new = allocate_public(cs)
        (self.phi,) = cs.instance(_generation(), comm_d_new, comm_r_old)
        comm_c, self.root_old, self.root_new = (cs.alloc() for _ in range(3))
        self.apex_leaves = [cs.alloc() for _ in range(shape.apex_leaves)]
        partition_path = [cs.alloc() for _ in range(shape.partition_bits)]
        cs.note("comm_r_old and comm_r_new equal to their hashes")
        for root, comm_r in ((self.root_old, comm_r_old), (self.root_new, self.comm_r_new)):
            (computed,) = cs.instance(PoseidonHash(2), comm_c, root)
            enforce_equal(cs, computed, comm_r)
        cs.note("tree of the apex leaves")
        apex_root = _tree(cs, self.apex_leaves)
        cs.note("path from the partition to comm_d_new")
        path = PathOfBits((2,) * shape.partition_bits, Hasher.SHA256)
        cs.instance(path, *self.partition_bits, apex_root, *partition_path, comm_d_new)

    @property
    def challenge_variables(self) -> tuple[Variable, ...]:
        """What `UpdateChallengeRows` takes before a challenge's own bits."""
        shared = (self.phi, self.root_old, self.root_new)
        return (*shared, *self.apex_leaves, *self.choice, *self.partition_bits)


def _partition_and_h(cs: ConstraintSystem, shape: UpdateShape) -> tuple[Variables, Variables]:
    """The bits of the partition, and the one-hot bits of h, from the first public input."""
    number = allocate_public(cs)
    bits = allocate_bits(cs, shape.partition_bits + len(shape.high_bits))
    cs.enforce(packed(bits), UNIT, single(number))
    return bits[: shape.partition_bits], bits[shape.partition_bits :]


def _challenge_bits(cs: ConstraintSystem, shape: UpdateShape, head: _Head) -> Iterator[Variables]:
    """The random bits of each challenge: groups of the bits of hashes of comm_r_new. All rows are made at once."""
    digests = []
    for number in range(shape.digests):
        cs.note(f"digest {number} of the challenges")
        index = allocate_sum(cs, combination((head.partition, shape.digests), (ONE, number)))
        (digest,) = cs.instance(_generation(), head.comm_r_new, index)
        digests.append(to_allocated_bits(cs, digest))
    size = shape.challenge_bits
    starts = range(0, shape.challenges_per_digest * size, size)
    return (bits[start : start + size] for bits in digests for start in starts)


@dataclass(frozen=True)
class UpdateChallengeRows:
    """One challenge, as a template of the variables in `_Head.challenge_variables` and its random bits."""

    shape: UpdateShape

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        shape = self.shape
        given = iter(variables)
        phi, root_old, root_new = taken(given, 3)
        apex_leaves, choice = taken(given, shape.apex_leaves), taken(given, len(shape.high_bits))
        partition_bits, random = taken(given, shape.partition_bits), taken(given, shape.challenge_bits)
        node = (*random, *partition_bits)
        cs.note("rho")
        (rho,) = cs.instance(_generation(), phi, _high_bits(cs, shape, node, choice))
        cs.note("new leaf")
        old, data = cs.alloc(), cs.alloc()
        new = add(cs, old, multiply(cs, data, rho))
        for name, leaf, root in (("old path", old, root_old), ("new path", new, root_new)):
            cs.note(name)
            _path(cs, PathOfBits(shape.sector.arities), node, leaf, root)
        cs.note("apex leaf")
        below = shape.challenge_bits - shape.apex_bits
        apex = select(cs, apex_leaves, random[below:])
        cs.note("data path")
        _path(cs, PathOfBits((2,) * below, Hasher.SHA256), random[:below], data, apex)
        return ()


def _high_bits(cs: ConstraintSystem, shape: UpdateShape, node: Variables, choice: Variables) -> Variable:
    """The number made of the h highest bits of the node: of six candidates the chosen one."""
    products = []
    for count, chosen in zip(shape.high_bits, choice, strict=True):
        products.append(multiply(cs, pack_bits(cs, node[len(node) - count :]), chosen))
    return allocate_sum(cs, combination(*((product, 1) for product in products)))


def _path(cs: ConstraintSystem, gadget: PathOfBits, bits: Variables, leaf: Variable, root: Variable) -> None:
    """The siblings, then the path."""
    siblings = [cs.alloc() for arity in gadget.arities for _ in range(arity - 1)]
    cs.instance(gadget, *bits, leaf, *siblings, root)


def select(cs: ConstraintSystem, choices: Variables, bits: Variables) -> Variable:
    """The one of 2^k choices whose number k bits are, least significant first."""
    selector = RowSelector(cs)
    for bit in reversed(bits):
        half = len(choices) // 2
        choices = [selector.pick(bit, choices[half + j], choices[j]) for j in range(half)]
    (chosen,) = choices
    return chosen


def _tree(cs: ConstraintSystem, row: Variables) -> Variable:
    """The root of the binary SHA-256 tree over a row."""
    while len(row) > 1:
        row = [cs.instance(Sha256Pair(), *row[i : i + 2])[0] for i in range(0, len(row), 2)]
    return row[0]


def _generation() -> PoseidonHash:
    """Poseidon with the tag of the update's randomness."""
    return PoseidonHash(2, GENERATION_TAG)
