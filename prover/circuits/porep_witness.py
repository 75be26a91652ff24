"""The witness of the StackedDrg PoRep without a constraint system: every value in the circuit's order of allocation."""

from __future__ import annotations

from collections.abc import Sequence

from prover.circuits import uint64
from prover.circuits.label import HEAD_BITS, LAYER_BITS
from prover.circuits.num import NUM_BITS
from prover.circuits.sha256 import STATE_BITS
from prover.circuits.values import NUMBER_PATTERN, PAIR_PATTERN, Values, Witness, prepare_hashes
from prover.circuits.witness import add_path, expect, expect_arities
from prover.filecoin import fr
from prover.filecoin.graph import DRG_DEGREE, EXPANSION_DEGREE
from prover.filecoin.labels import LABEL_PARENTS, encode, expanded
from prover.filecoin.porep import Column, PorepChallenge, PorepInstance
from prover.filecoin.shapes import PorepShape

_PADDING_BITS = HEAD_BITS - STATE_BITS - LAYER_BITS - uint64.BITS


def porep_witness(shape: PorepShape, instance: PorepInstance) -> Witness:
    """The witness of an instance, satisfying or not. Raises InstanceMismatch when it has another shape.

    The labels of a challenged node are those that its parents give, as the circuit has it.
    """
    check_shape(shape, instance)
    values = Values()
    _add_head(values, instance)
    for challenge in instance.challenges:
        _add_challenge(values, shape, instance.replica_id, challenge)
    return values.witness()


def prepare(shape: PorepShape) -> None:
    """Makes, once a process, what `porep_witness` needs of a shape."""
    prepare_hashes((2, shape.layers, *shape.sector.arities), (PAIR_PATTERN, *map(_label_pattern, _layers(shape))))


def check_shape(shape: PorepShape, instance: PorepInstance) -> None:
    """Raises InstanceMismatch unless the instance has the challenges, parents, layers and levels of the circuit."""
    expect(len(instance.challenges), shape.challenges, "challenges")
    for i, challenge in enumerate(instance.challenges):
        place = f"challenges[{i}]"
        expect_arities(challenge.data, (2,) * shape.data_levels, f"{place}.data")
        expect_arities(challenge.replica, shape.sector.arities, f"{place}.replica")
        expect_arities(challenge.column.path, shape.sector.arities, f"{place}.column.path")
        expect(len(challenge.drg_parents), DRG_DEGREE, f"{place}.drg_parents")
        expect(len(challenge.expander_parents), EXPANSION_DEGREE, f"{place}.expander_parents")
        for name, columns in (("drg", challenge.drg_parents), ("expander", challenge.expander_parents)):
            for j, column in enumerate(columns):
                _check_column(shape, column, f"{place}.{name}_parents[{j}]")


def _check_column(shape: PorepShape, column: Column, place: str) -> None:
    expect(len(column.labels), shape.layers, f"{place}.labels")
    expect_arities(column.path, shape.sector.arities, f"{place}.path")


def _add_head(values: Values, instance: PorepInstance) -> None:
    values.add_public(instance.replica_id)
    values.add_bits(instance.replica_id, NUM_BITS)
    values.add_public(instance.comm_d)
    values.add_public(instance.comm_r)
    values.add(instance.comm_r_last, instance.comm_c)
    values.hash((instance.comm_c, instance.comm_r_last))


def _add_challenge(values: Values, shape: PorepShape, replica_id: int, challenge: PorepChallenge) -> None:
    data = challenge.data.leaf
    values.add(data)
    add_path(values, data, challenge.data, sha256=True)
    for column in (*challenge.drg_parents, *challenge.expander_parents):
        values.add(*column.labels)
        add_path(values, values.hash(column.labels), column.path)
    values.add_bits(challenge.node, uint64.BITS)
    values.inputs.append(challenge.node)
    labels = tuple(_add_label(values, replica_id, challenge, layer) for layer in _layers(shape))
    replica = encode(labels[-1], data)
    values.add(replica)
    add_path(values, replica, challenge.replica)
    add_path(values, values.hash(labels), challenge.column.path)


def _layers(shape: PorepShape) -> range:
    return range(1, shape.layers + 1)


def _add_label(values: Values, replica_id: int, challenge: PorepChallenge, layer: int) -> int:
    parents = [column.labels[layer - 1] for column in challenge.drg_parents]
    if layer > 1:
        parents += [column.labels[layer - 2] for column in challenge.expander_parents]
    for parent in parents:
        values.add_bits(parent, NUM_BITS)
    return values.sha256_number(_label_pattern(layer), _label_message(replica_id, layer, challenge.node, parents))


def _label_pattern(layer: int) -> str:
    """The pattern of what `label.create_label` hashes."""
    head = f"{NUMBER_PATTERN}{layer:0{LAYER_BITS}b}{'v' * uint64.BITS}{'0' * _PADDING_BITS}"
    return head + LABEL_PARENTS * NUMBER_PATTERN


def _label_message(replica_id: int, layer: int, node: int, parents: Sequence[int]) -> bytes:
    head = fr.to_bytes(replica_id) + layer.to_bytes(LAYER_BITS // 8, "big") + node.to_bytes(uint64.BITS // 8, "big")
    return head + bytes(_PADDING_BITS // 8) + b"".join(map(fr.to_bytes, expanded(parents)))
