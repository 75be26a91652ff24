"""What can go wrong between an instance and its assignment."""

from __future__ import annotations

from prover.errors import CuzkError, InvalidInput


class InstanceMismatch(InvalidInput):
    """The instance does not have the shape of the circuit."""

    code = "instance_mismatch"


class UnsatisfiedConstraint(CuzkError):
    """The witness does not satisfy the circuit."""

    code = "unsatisfied_constraint"

    def __init__(self, row: int, place: str, failing: int) -> None:
        """`row` is the first of `failing` unsatisfied rows, `place` says where in the circuit it is."""
        self.row = row
        self.place = place
        super().__init__(f"row {row} is not satisfied ({place}); {failing} rows fail")


class CircuitTooLarge(CuzkError):
    """The circuit has more rows than there is memory to write out."""

    code = "circuit_too_large"


class CacheDamaged(CuzkError):
    """A file of recorded matrices is damaged, of another version, or of another circuit."""

    code = "circuit_cache_damaged"
