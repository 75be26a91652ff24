"""The circuits that are known: for each type of shape how its rows are made, and its witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.counting import CountingSystem
from prover.circuits.empty_sector_update import empty_sector_update
from prover.circuits.errors import CircuitTooLarge
from prover.circuits.fallback_post import describe_row as describe_post_row
from prover.circuits.fallback_post import fallback_post
from prover.circuits.matrices import Matrices, matrices_of
from prover.circuits.porep_witness import porep_witness
from prover.circuits.stacked_porep import stacked_porep
from prover.circuits.update_witness import update_witness
from prover.circuits.values import Witness
from prover.circuits.witness import fallback_post_witness
from prover.filecoin.errors import UnsupportedProof
from prover.filecoin.shapes import CircuitShape, PorepShape, PostShape, UpdateShape

#: some 6 terms of 6 bytes a row, and a multiple of that while they are recorded
MAX_RECORDED_ROWS = 1 << 24


@dataclass(frozen=True, slots=True)
class Definition:
    """`build(cs, shape)` makes the rows, `witness(shape, instance)` the values, `describe(shape, row)` names a row."""

    build: Callable[[ConstraintSystem, Any], None]
    witness: Callable[[Any, Any], Witness]
    describe: Callable[[Any, int], str]


def describe_row(shape: CircuitShape, row: int) -> str:
    """Where in the circuit a row is, in words, for messages; rows past the last are those of the inputs."""
    return _definition(shape).describe(shape, row)


def count(shape: CircuitShape) -> CountingSystem:
    """The circuit, counted: of any size, for templates are counted once."""
    cs = CountingSystem()
    _definition(shape).build(cs, shape)
    return cs


def record(shape: CircuitShape) -> Matrices:
    """The matrices of the circuit. Raises CircuitTooLarge above `MAX_RECORDED_ROWS`."""
    rows = count(shape).num_constraints
    if rows > MAX_RECORDED_ROWS:
        text = f"{shape.kind} of {shape.sector.name} has {rows:,} rows, at most {MAX_RECORDED_ROWS:,} are written out"
        raise CircuitTooLarge(text)
    cs = ConstraintSystem()
    _definition(shape).build(cs, shape)
    return matrices_of(cs)


def witness(shape: CircuitShape, instance: object) -> Witness:
    """The witness of an instance, satisfying or not. Raises InstanceMismatch when it has another shape."""
    return _definition(shape).witness(shape, instance)


def _definition(shape: CircuitShape) -> Definition:
    """Raises UnsupportedProof for a kind whose circuit is not known."""
    if type(shape) not in _DEFINITIONS:
        raise UnsupportedProof(f"the circuit of {shape.kind} is not known", field="proof_kind")
    return _DEFINITIONS[type(shape)]


@lru_cache(maxsize=4)
def _counted(shape: CircuitShape) -> CountingSystem:
    return count(shape)


def _describe_by_notes(shape: CircuitShape, row: int) -> str:
    counted = _counted(shape)
    if row >= counted.num_constraints:
        return f"the row of public input {row - counted.num_constraints}"
    return counted.place(row)


_DEFINITIONS: Final[dict[type[CircuitShape], Definition]] = {
    PostShape: Definition(fallback_post, fallback_post_witness, describe_post_row),
    PorepShape: Definition(stacked_porep, porep_witness, _describe_by_notes),
    UpdateShape: Definition(empty_sector_update, update_witness, _describe_by_notes),
}
