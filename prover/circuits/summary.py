"""The figures of a circuit, as the command line prints them."""

from __future__ import annotations

from typing import TypedDict

from prover.circuits import definitions
from prover.circuits.counting import Counts
from prover.circuits.digest import Digest, r1cs_digest
from prover.filecoin.shapes import CircuitShape

#: larger circuits are counted alone: to write them out takes minutes and much memory
MAX_DIGEST_ROWS = 1 << 24


class CircuitSummary(TypedDict):
    """Figures of a circuit; the rows x * 0 = 0 of the inputs count for `domain` and `len_a` only.

    `nnz`: terms of A, B and C. `len_*`: points in the sections of a key. The digests are those of `digest.r1cs_digest`,
    None for a circuit that is too large to be written out.
    """

    name: str
    sector_size: int
    num_constraints: int
    num_inputs: int
    num_aux: int
    domain: int
    nnz: list[int]
    num_distinct_coefs: int
    a_aux_density: int
    b_input_density: int
    b_aux_density: int
    len_a: int
    len_b: int
    len_h: int
    len_l: int
    r1cs_sha256: str | None
    r1cs_checkpoints: list[str] | None


def summarize(shape: CircuitShape) -> CircuitSummary:
    """The figures of a circuit of any size; the digests of one that is written out."""
    counted = definitions.count(shape)
    figures, coefs = counted.counts, len(counted.coefficients)
    if figures.constraints > MAX_DIGEST_ROWS:
        return _summary(shape, figures, coefs, None)
    return _summary(shape, figures, coefs, r1cs_digest(definitions.record(shape)))


def params_size(shape: CircuitShape) -> int:
    """Bytes of the `.params` file of a circuit of any size."""
    figures = _summary(shape, definitions.count(shape).counts, 0, None)
    in_g1 = figures["len_h"] + figures["len_l"] + figures["len_a"] + figures["len_b"]
    return vk_size(shape) + 5 * 4 + 96 * in_g1 + 192 * figures["len_b"]


def vk_size(shape: CircuitShape) -> int:
    """Bytes of the `.vk` file."""
    return 868 + 96 * shape.num_inputs


def _summary(shape: CircuitShape, figures: Counts, coefs: int, digest: Digest | None) -> CircuitSummary:
    domain = 1 << (figures.constraints + figures.inputs - 1).bit_length()
    return CircuitSummary(
        name=str(shape.kind),
        sector_size=shape.sector.size,
        num_constraints=figures.constraints,
        num_inputs=figures.inputs,
        num_aux=figures.aux,
        domain=domain,
        nnz=[figures.nnz_a, figures.nnz_b, figures.nnz_c],
        num_distinct_coefs=coefs,
        a_aux_density=figures.a_aux,
        b_input_density=figures.b_inputs,
        b_aux_density=figures.b_aux,
        len_a=figures.inputs + figures.a_aux,
        len_b=figures.b_inputs + figures.b_aux,
        len_h=domain - 1,
        len_l=figures.aux,
        r1cs_sha256=digest.sha256 if digest else None,
        r1cs_checkpoints=list(digest.checkpoints) if digest else None,
    )
