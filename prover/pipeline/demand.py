"""How much memory of the host the work on a circuit takes, from the counts of its rows and wires: what is reserved.

The factors were measured as the growth of the process between one step and the next, on circuits of 2^15 to 2^22 rows
(docs/figures.md); they are meant to be a little too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ..algebra.curve import G1, G2
from ..circuits import definitions
from ..filecoin.shapes import CircuitShape, PostShape
from ..groth16.layouts import Section

#: phases of an attempt's reservation: until the device has worked, and until its proof is there
DEVICE_PHASE: Final = "device_phase"
TAIL: Final = "tail"

_ELEMENT: Final = 32  # bytes of a wire
_RESIDUES: Final = 88  # bytes of a row of a, b or c, and of a row of the domain in a transform
#: of the domain's length, of residues, that the transforms have at a time; and copies of the wires: scalars and digits
_VECTORS: Final = 4
_COPIES: Final = 4
#: what a device phase takes whatever the circuit: tiles, buckets, stacks of its threads
_FIXED: Final = 192 << 20
_FIXED_TAIL: Final = 32 << 20
#: wires of b_g2, their digits and their sorting, in bytes a base
_TAIL_BASE: Final = 128
#: recorded matrices and what a synthesis prepares of them, in bytes a term and a row; with the rows of SHA-256 most are
#: computed on small integers
_TERM: Final = 32
_TERM_OF_BITS: Final = 10
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes of the host's memory."""

    device_phase: int  # of one attempt: witness, a, b, c, the digits of sums; freed when the device has worked
    vectors: int  # of its transforms, where the device's memory is the host's
    tail: int  # of one attempt, until its proof is there
    bases: int  # of the key: its bases without tables
    circuit: int  # recorded matrices, as they are kept
    recording: int  # while they are recorded or read

    def attempt(self, *, on_host: bool = True) -> Mapping[str, int]:
        """An attempt's bytes by phase; `on_host`: its device's memory is the host's."""
        return {DEVICE_PHASE: self.device_phase + on_host * self.vectors, TAIL: self.tail}

    def lasting(self, table_bytes: int) -> int:
        """At most what the key and its circuit keep, when so many bytes may go to bases and tables."""
        return max(self.bases, table_bytes) + self.circuit


@lru_cache(maxsize=64)
def demand(shape: CircuitShape) -> Demand:
    """The demand of a circuit of any size: its rows are counted, which takes up to seconds the first time."""
    counts = definitions.count(shape).counts
    rows, wires = counts.constraints + counts.inputs, counts.inputs + counts.aux
    domain = 1 << (rows - 1).bit_length()
    len_b, terms = counts.b_inputs + counts.b_aux, counts.nnz_a + counts.nnz_b + counts.nnz_c
    # with the summands of alpha, beta and delta, which are further bases
    sizes = (domain - 1, counts.aux + 1, counts.inputs + counts.a_aux + 2, len_b + 2)
    sections = [*((G1, size) for size in sizes), (G2, len_b + 2)]
    return Demand(
        device_phase=3 * _RESIDUES * rows + _COPIES * _ELEMENT * wires + _FIXED,
        vectors=_VECTORS * _RESIDUES * domain,
        tail=_TAIL_BASE * len_b + _FIXED_TAIL,
        bases=sum(Section(group, size, size).plain().nbytes for group, size in sections),
        circuit=(_TERM if isinstance(shape, PostShape) else _TERM_OF_BITS) * terms + _ROW * rows,
        recording=definitions.recording_bytes(counts),
    )
