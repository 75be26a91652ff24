"""FallbackPoSt, the circuit of WindowPoSt and WinningPoSt.

For each sector comm_r is public and binds comm_c and comm_r_last; each of its challenges is a path to comm_r_last.
WinningPoSt is one sector unrolled: 66 circuit sectors with the same commitments and one challenge each.
"""

from __future__ import annotations

from dataclasses import dataclass

from prover.circuits import por, poseidon
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.insertion import INSERTION_ROWS
from prover.circuits.num import enforce_equal, inputize
from prover.filecoin.shapes import PostShape


@dataclass(frozen=True, slots=True)
class PostSector:
    """One sector of the circuit: its commitments, then its challenges."""

    arities: tuple[int, ...]
    challenges: int

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[()]:
        comm_r_last, comm_c, comm_r = cs.alloc(), cs.alloc(), cs.alloc()
        inputize(cs, comm_r)
        (computed,) = cs.instance(poseidon.PoseidonHash(2), comm_c, comm_r_last)
        enforce_equal(cs, comm_r, computed)
        for _ in range(self.challenges):
            cs.instance(por.PathToRoot(self.arities), comm_r_last)
        return ()


def fallback_post(cs: ConstraintSystem, shape: PostShape) -> None:
    """The whole circuit. Inputs: ONE, then for each sector comm_r and the leaf index of each challenge."""
    for _ in range(shape.sectors):
        cs.instance(PostSector(shape.sector.arities, shape.challenges))


def sector_rows(shape: PostShape) -> int:
    """Rows of one sector of the circuit."""
    return poseidon.num_rows(2) + 2 + shape.challenges * por.num_rows(shape.sector.arities)


def describe_row(shape: PostShape, row: int) -> str:
    """Where in the circuit a row is, in words, for messages; rows past the last are those of the inputs."""
    sector, offset = divmod(row, sector_rows(shape))
    if sector >= shape.sectors:
        return f"the row of public input {row - shape.sectors * sector_rows(shape)}"
    head = poseidon.num_rows(2) + 2
    if offset < head:
        part = {0: "comm_r as input", head - 1: "comm_r equal to its hash"}.get(
            offset, "hash of comm_c and comm_r_last"
        )
        return f"sector {sector}, {part}"
    challenge, offset = divmod(offset - head, por.num_rows(shape.sector.arities))
    return f"sector {sector}, challenge {challenge}, {_describe_path(shape.sector.arities, offset)}"


def _describe_path(arities: tuple[int, ...], offset: int) -> str:
    for level, arity in enumerate(arities):
        parts = (
            ("index bits", por.index_bits(arity)),
            ("insertion", INSERTION_ROWS[arity]),
            ("hash", poseidon.num_rows(arity)),
        )
        for name, rows in parts:
            if offset < rows:
                return f"level {level} of arity {arity}, {name}, row {offset}"
            offset -= rows
    return ("leaf index as input", "computed root equal to comm_r_last")[offset]
