"""The figures of a circuit, as the command line prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from prover.circuits import fallback_post
from prover.circuits.digest import Digest, r1cs_digest
from prover.circuits.fallback_post import record
from prover.circuits.matrices import Matrices
from prover.filecoin.shapes import PostShape


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


def summarize(shape: PostShape) -> CircuitSummary:
    """The figures of a circuit of any size; one that is not written out is derived from one and two of its sectors."""
    if shape.sectors * fallback_post.sector_rows(shape) <= fallback_post.MAX_RECORDED_ROWS:
        return summarize_matrices(shape, record(shape))
    one, two = record(replace(shape, sectors=1)), record(replace(shape, sectors=2))
    figures = _grown(_figures(one), _figures(two), shape.sectors)
    return _summary(shape, figures, len(one.coefs), None)


def summarize_matrices(shape: PostShape, matrices: Matrices) -> CircuitSummary:
    """The figures of recorded matrices, digests included."""
    return _summary(shape, _figures(matrices), len(matrices.coefs), r1cs_digest(matrices))


def _figures(matrices: Matrices) -> dict[str, int]:
    """The figures to which every sector adds its own."""
    nnz_a, nnz_b, nnz_c = matrices.nnz
    return {
        "constraints": matrices.num_constraints,
        "inputs": matrices.num_inputs,
        "aux": matrices.num_aux,
        "nnz_a": nnz_a,
        "nnz_b": nnz_b,
        "nnz_c": nnz_c,
        "a_aux": int(matrices.a_aux_mask.sum()),
        "b_inputs": int(matrices.b_input_mask.sum()),
        "b_aux": int(matrices.b_aux_mask.sum()),
    }


def _grown(one: dict[str, int], two: dict[str, int], sectors: int) -> dict[str, int]:
    """Sectors are equal and share nothing but ONE: each adds the difference of a circuit of two to a circuit of one."""
    return {name: one[name] + (sectors - 1) * (two[name] - one[name]) for name in one}


def _summary(shape: PostShape, figures: dict[str, int], coefs: int, digest: Digest | None) -> CircuitSummary:
    domain = 1 << (figures["constraints"] + figures["inputs"] - 1).bit_length()
    return CircuitSummary(
        name=str(shape.kind),
        sector_size=shape.sector.size,
        num_constraints=figures["constraints"],
        num_inputs=figures["inputs"],
        num_aux=figures["aux"],
        domain=domain,
        nnz=[figures["nnz_a"], figures["nnz_b"], figures["nnz_c"]],
        num_distinct_coefs=coefs,
        a_aux_density=figures["a_aux"],
        b_input_density=figures["b_inputs"],
        b_aux_density=figures["b_aux"],
        len_a=figures["inputs"] + figures["a_aux"],
        len_b=figures["b_inputs"] + figures["b_aux"],
        len_h=domain - 1,
        len_l=figures["aux"],
        r1cs_sha256=digest.sha256 if digest else None,
        r1cs_checkpoints=list(digest.checkpoints) if digest else None,
    )
