"""Which circuits are too large to be proved here: known at once, where counting their rows takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prover.algebra.domains import MAX_LOG2, DomainTooLarge
from prover.filecoin.shapes import GIB, MIB, CircuitShape, ProofKind, circuit_shape

#: log2 of the domains beyond the transforms; all other circuits of the Filecoin stack fit
_TOO_LARGE: Final[Mapping[CircuitShape, int]] = {circuit_shape(ProofKind.SNAP, 512 * MIB): 26} | {
    circuit_shape(kind, size): 27
    for kind in (ProofKind.POREP, ProofKind.SNAP, ProofKind.WINDOW_POST)
    for size in (32 * GIB, 64 * GIB)
}


def refuse_unprovable(shape: CircuitShape) -> None:
    """Before any work on the circuit. Raises DomainTooLarge."""
    reason = unprovable(shape)
    if reason is not None:
        raise DomainTooLarge(reason, field="sector_size")


def unprovable(shape: CircuitShape) -> str | None:
    """Why the circuit cannot be proved here, however much memory there is; None when it can."""
    log2 = _TOO_LARGE.get(shape)
    if log2 is None:
        return None
    return f"{shape.label} has 2^{log2} rows; this prover transforms at most 2^{MAX_LOG2}, so it can only verify"
