"""Circuits beyond the transforms are refused by name, before any work; the list of them is what the counts say."""

from __future__ import annotations

import pytest

from prover.algebra.domains import MAX_LOG2, DomainTooLarge
from prover.circuits import provable
from prover.circuits.definitions import count
from prover.circuits.provable import refuse_unprovable
from prover.filecoin.shapes import GIB, CircuitShape, ProofKind, circuit_shapes, porep_shape, post_shape

ALL = list(circuit_shapes())
#: counting a PoRep takes seconds: the sizes at the limit stand for those below and above
QUICK = [shape for shape in ALL if shape.kind is not ProofKind.POREP or shape.sector.size in (1 * GIB, 32 * GIB)]


def log2(shape: CircuitShape) -> int:
    counts = count(shape).counts
    return (counts.constraints + counts.inputs - 1).bit_length()


@pytest.mark.parametrize("shapes", [QUICK, pytest.param(ALL, marks=pytest.mark.acceptance)], ids=["quick", "all"])
def test_the_list_is_what_the_counts_say(shapes: list[CircuitShape]) -> None:
    beyond = {shape: bits for shape in shapes if (bits := log2(shape)) > MAX_LOG2}
    assert beyond == {shape: bits for shape, bits in provable._TOO_LARGE.items() if shape in shapes}


def test_a_refusal_names_circuit_and_limit() -> None:
    refuse_unprovable(post_shape(ProofKind.WINNING_POST, 64 * GIB))
    with pytest.raises(DomainTooLarge, match=r"porep-c2 64GiB has 2\^27 rows; .* at most 2\^24") as caught:
        refuse_unprovable(porep_shape(64 * GIB))
    assert (caught.value.code, caught.value.field) == ("domain_too_large", "sector_size")
