"""The witness of FallbackPoSt without a constraint system: every value in the circuit's order of allocation."""

from __future__ import annotations

from prover.circuits.errors import InstanceMismatch
from prover.circuits.por import index_bits
from prover.circuits.values import Values, Witness, prepare_hashes
from prover.filecoin.post import CircuitSector, PostInstance
from prover.filecoin.shapes import PostShape
from prover.filecoin.vanilla import MerkleProof


def fallback_post_witness(shape: PostShape, instance: PostInstance) -> Witness:
    """The witness of an instance, satisfying or not. Raises InstanceMismatch when it has another shape."""
    check_shape(shape, instance)
    values = Values()
    for sector in instance.sectors:
        _add_sector(values, sector)
    return values.witness()


def prepare_paths(shape: PostShape) -> None:
    """Makes, once a process, what `fallback_post_witness` needs of a shape."""
    prepare_hashes((2, *shape.sector.arities))


def path_witness(path: MerkleProof, *, root: int | None = None, public_root: bool = False) -> Witness:
    """The witness of a path alone (`por.PathToRoot`), its root allocated there when given."""
    values = Values()
    _add_path(values, path)
    if root is not None:
        values.add(root)
        if public_root:
            values.inputs.append(root)
    return values.witness()


def check_shape(shape: PostShape, instance: PostInstance) -> None:
    """Raises InstanceMismatch unless the instance has the sectors, challenges and path levels of the circuit."""
    expect(len(instance.sectors), shape.sectors, "sectors")
    for i, sector in enumerate(instance.sectors):
        expect(len(sector.paths), shape.challenges, f"sectors[{i}].paths")
        for j, path in enumerate(sector.paths):
            expect_arities(path, shape.sector.arities, f"sectors[{i}].paths[{j}]")


def expect(found: int, wanted: int, name: str) -> None:
    """Raises InstanceMismatch unless as many are `found` as the circuit has."""
    if found != wanted:
        raise InstanceMismatch(f"{found} given, the circuit has {wanted}", field=name)


def expect_arities(path: MerkleProof, wanted: tuple[int, ...], name: str) -> None:
    """Raises InstanceMismatch unless the levels of a path have the circuit's arities."""
    arities = tuple(len(level.siblings) + 1 for level in path.path)
    if arities != wanted:
        raise InstanceMismatch(f"arities {arities}, not {wanted}", field=name)


def _add_sector(values: Values, sector: CircuitSector) -> None:
    values.add(sector.comm_r_last, sector.comm_c, sector.comm_r)
    values.inputs.append(sector.comm_r)
    values.hash((sector.comm_c, sector.comm_r_last))
    for path in sector.paths:
        _add_path(values, path)


def _add_path(values: Values, path: MerkleProof) -> None:
    """The leaf, then its path."""
    values.add(path.leaf)
    add_path(values, path.leaf, path)


def add_path(values: Values, leaf: int, path: MerkleProof, *, sha256: bool = False) -> int:
    """What `por.PathToRoot` allocates above its leaf; the leaf index is an input. Returns the root that the path gives.

    For each level index bits, siblings, insertion, hash.
    """
    node, leaf_index, shift = leaf, 0, 0
    for level in path.path:
        bits = index_bits(len(level.siblings) + 1)
        values.add_bits(level.index, bits)
        values.add(*level.siblings)
        node = add_parent(values, node, level.index, level.siblings, sha256=sha256)
        leaf_index |= level.index << shift
        shift += bits
    values.inputs.append(leaf_index)
    return node


def add_parent(values: Values, node: int, index: int, siblings: tuple[int, ...], *, sha256: bool = False) -> int:
    """Insertion and hash: adds what they allocate; returns the parent of `node`."""
    values.add_insertion(node, index, siblings)
    children = (*siblings[:index], node, *siblings[index:])
    if sha256:
        left, right = children
        return values.sha256_pair(left, right)
    return values.hash(children)
