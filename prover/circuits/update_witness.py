"""The witness of EmptySectorUpdate without a constraint system: every value in the circuit's order of allocation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prover.circuits.num import NUM_BITS
from prover.circuits.por import index_bits
from prover.circuits.values import PAIR_PATTERN, Values, Witness, prepare_hashes
from prover.circuits.witness import add_parent, expect, expect_arities
from prover.filecoin.poseidon import GENERATION_TAG, MODULUS
from prover.filecoin.shapes import UpdateShape
from prover.filecoin.update import UpdateChallenge, UpdateInstance


def update_witness(shape: UpdateShape, instance: UpdateInstance) -> Witness:
    """The witness of an instance, satisfying or not. Raises InstanceMismatch when it has another shape.

    The challenged nodes are those that comm_r_new gives, as the circuit has it.
    """
    check_shape(shape, instance)
    values = Values()
    phi = _add_head(values, shape, instance)
    nodes = list(_add_challenge_bits(values, shape, instance))
    for node, challenge in zip(nodes, instance.challenges, strict=True):
        _add_challenge(values, shape, instance, challenge, node, phi)
    return values.witness()


def prepare(shape: UpdateShape) -> None:
    """Makes, once a process, what `update_witness` needs of a shape."""
    prepare_hashes((2, *shape.sector.arities), (PAIR_PATTERN,))


def check_shape(shape: UpdateShape, instance: UpdateInstance) -> None:
    """Raises InstanceMismatch unless the instance has the challenges, leaves and path levels of the circuit."""
    expect(len(instance.challenges), shape.challenges, "challenges")
    expect(len(instance.apex_leaves), shape.apex_leaves, "apex_leaves")
    expect(len(instance.partition_path), shape.partition_bits, "partition_path")
    for i, challenge in enumerate(instance.challenges):
        place = f"challenges[{i}]"
        expect_arities(challenge.old_path, shape.sector.arities, f"{place}.old_path")
        expect_arities(challenge.new_path, shape.sector.arities, f"{place}.new_path")
        expect_arities(challenge.data_path, (2,) * shape.node_bits, f"{place}.data_path")


def _add_head(values: Values, shape: UpdateShape, instance: UpdateInstance) -> int:
    """All that the challenges share; returns phi."""
    number = shape.partition_and_h(instance.partition)
    values.add_public(number)
    values.add_bits(number, shape.partition_bits + len(shape.high_bits))
    values.add(instance.partition)
    for public in (instance.comm_r_old, instance.comm_d_new, instance.comm_r_new):
        values.add_public(public)
    phi = values.hash((instance.comm_d_new, instance.comm_r_old), GENERATION_TAG)
    values.add(instance.comm_c, instance.comm_r_last_old, instance.comm_r_last_new)
    values.add(*instance.apex_leaves, *instance.partition_path)
    values.hash((instance.comm_c, instance.comm_r_last_old))
    values.hash((instance.comm_c, instance.comm_r_last_new))
    root = _add_tree(values, instance.apex_leaves)
    siblings = [(sibling,) for sibling in instance.partition_path]
    _add_path_of_bits(values, instance.partition, root, siblings, sha256=True)
    return phi


def _add_tree(values: Values, row: Sequence[int]) -> int:
    """The root of the SHA-256 tree over a row."""
    while len(row) > 1:
        row = [values.sha256_pair(*row[i : i + 2]) for i in range(0, len(row), 2)]
    return row[0]


def _add_challenge_bits(values: Values, shape: UpdateShape, instance: UpdateInstance) -> Iterator[int]:
    """The challenged nodes within the partition; all that is allocated for them comes before the first one."""
    digests = []
    for number in range(shape.digests):
        index = shape.digests * instance.partition + number
        values.add(index)
        digests.append(values.hash((instance.comm_r_new, index), GENERATION_TAG))
        values.add_bits(digests[-1], NUM_BITS)
    size = shape.challenge_bits
    for number in range(shape.challenges):
        digest, place = divmod(number, shape.challenges_per_digest)
        yield digests[digest] >> place * size & ((1 << size) - 1)


def _add_challenge(
    values: Values, shape: UpdateShape, instance: UpdateInstance, challenge: UpdateChallenge, random: int, phi: int
) -> None:
    """`random`: the node's number within its partition."""
    node = random | instance.partition << shape.challenge_bits
    rho = values.hash((phi, _add_high(values, shape, node)), GENERATION_TAG)
    old, data = challenge.old_path.leaf, challenge.data_path.leaf
    product = data * rho % MODULUS
    new = (old + product) % MODULUS
    values.add(old, data, product, new)
    for leaf, path in ((old, challenge.old_path), (new, challenge.new_path)):
        siblings = [level.siblings for level in path.path]
        values.add(*(sibling for level in siblings for sibling in level))
        _add_path_of_bits(values, node, leaf, siblings)
    below = shape.challenge_bits - shape.apex_bits
    _add_selection(values, instance.apex_leaves, random >> below)
    siblings = [level.siblings for level in challenge.data_path.path[:below]]
    values.add(*(sibling for level in siblings for sibling in level))
    _add_path_of_bits(values, random, data, siblings, sha256=True)


def _add_high(values: Values, shape: UpdateShape, node: int) -> int:
    """The h highest bits of a node, one-hot chosen among six candidates."""
    high = 0
    for position, count in enumerate(shape.high_bits):
        candidate = node >> (shape.node_bits - count)
        chosen = candidate if position == shape.h_position else 0
        values.add(candidate, chosen)
        high += chosen
    values.add(high)
    return high


def _add_selection(values: Values, choices: Sequence[int], index: int) -> None:
    """What `empty_sector_update.select` allocates."""
    half = len(choices) // 2
    while half:
        choices = choices[half:] if index & half else choices[:half]
        values.add(*choices)
        half //= 2


def _add_path_of_bits(
    values: Values, index: int, leaf: int, levels: Sequence[tuple[int, ...]], *, sha256: bool = False
) -> None:
    """What `por.PathOfBits` allocates: `levels` are the siblings, from the lowest level up."""
    node = leaf
    for siblings in levels:
        bits = index_bits(len(siblings) + 1)
        node = add_parent(values, node, index & ((1 << bits) - 1), siblings, sha256=sha256)
        index >>= bits
