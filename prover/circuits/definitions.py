"""The circuits that are known: for each type of shape how its rows are made, and its witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from prover.circuits.constraint_system import ConstraintSystem
from prover.circuits.counting import CountingSystem, Counts
from prover.circuits.empty_sector_update import empty_sector_update
from prover.circuits.errors import CircuitTooLarge
from prover.circuits.fallback_post import describe_row as describe_post_row
from prover.circuits.fallback_post import fallback_post
from prover.circuits.matrices import Matrices, matrices_of
from prover.circuits.porep_witness import porep_witness
from prover.circuits.porep_witness import prepare as prepare_porep
from prover.circuits.stacked_porep import stacked_porep
from prover.circuits.update_witness import prepare as prepare_update
from prover.circuits.update_witness import update_witness
from prover.circuits.values import Witness
from prover.circuits.witness import fallback_post_witness, prepare_paths
from prover.filecoin.errors import UnsupportedProof
from prover.filecoin.shapes import CircuitShape, PorepShape, PostShape, UpdateShape
from prover.memory import memory

#: bytes that recording takes at its peak, measured on circuits of one challenge, whose template is one copy more
_TERM_BYTES, _ROW_BYTES = 28, 48


@dataclass(frozen=True, slots=True)
class Definition:
    """`build(cs, shape)` makes the rows, `witness(shape, instance)` the values, `describe(shape, row)` names a row.

    `prepare(shape)` makes, ahead of the first witness, what every witness needs.
    """

    build: Callable[[ConstraintSystem, Any], None]
    witness: Callable[[Any, Any], Witness]
    describe: Callable[[Any, int], str]
    prepare: Callable[[Any], None]


def describe_row(shape: CircuitShape, row: int) -> str:
    """Where in the circuit a row is, in words, for messages; rows past the last are those of the inputs."""
    return _definition(shape).describe(shape, row)


def count(shape: CircuitShape) -> CountingSystem:
    """The circuit, counted: of any size, for templates are counted once."""
    cs = CountingSystem()
    _definition(shape).build(cs, shape)
    return cs


def record(shape: CircuitShape) -> Matrices:
    """The matrices of the circuit. Raises CircuitTooLarge when recording would take more memory than there is."""
    counts = count(shape).counts
    needed, available = recording_bytes(counts), memory().available
    if needed > available:
        text = (
            f"the {counts.constraints:,} rows of {shape.label} need {needed >> 20:,} MiB, {available >> 20:,} are free"
        )
        raise CircuitTooLarge(text)
    cs = ConstraintSystem()
    _definition(shape).build(cs, shape)
    return matrices_of(cs)


def recording_bytes(counts: Counts) -> int:
    """About as much memory as recording a circuit takes."""
    return _TERM_BYTES * (counts.nnz_a + counts.nnz_b + counts.nnz_c) + _ROW_BYTES * counts.constraints


def prepare(shape: CircuitShape) -> None:
    """Make what the first witness would make otherwise: a second's work for a circuit with SHA-256."""
    _definition(shape).prepare(shape)


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
    PostShape: Definition(fallback_post, fallback_post_witness, describe_post_row, prepare_paths),
    PorepShape: Definition(stacked_porep, porep_witness, _describe_by_notes, prepare_porep),
    UpdateShape: Definition(empty_sector_update, update_witness, _describe_by_notes, prepare_update),
}
