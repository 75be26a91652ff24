"""The figures of circuits, as the command line prints them; production sizes without writing the circuit out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prover.circuits import fallback_post
from prover.circuits.summary import summarize
from prover.filecoin.shapes import GIB, KIB, ProofKind, post_shape
from tests.circuits.vectors import POST, SHAPES, read_json


@pytest.mark.parametrize("name", ["tiny", "window", "winning"])
def test_figures_equal_the_vectors(name: str) -> None:
    vector = read_json(POST / f"{name}.r1cs.json")
    found = summarize(SHAPES[name])
    shared = [key for key in found if key in vector and key != "name"]
    assert {"num_constraints", "nnz", "len_a", "len_b", "len_h", "len_l", "r1cs_sha256", "r1cs_checkpoints"} < set(
        shared
    )
    assert {key: found[key] for key in shared} == {key: vector[key] for key in shared}


PRODUCTION = {
    (ProofKind.WINDOW_POST, 32 * GIB): (125_279_217, 1 + 2349 * 11, 1 << 27),
    (ProofKind.WINDOW_POST, 64 * GIB): (129_887_900, 1 + 2300 * 11, 1 << 27),
    (ProofKind.WINNING_POST, 32 * GIB): (370_590, 133, 1 << 19),
    (ProofKind.WINNING_POST, 64 * GIB): (391_314, 133, 1 << 19),
}


@pytest.mark.parametrize(("kind", "size"), PRODUCTION)
def test_production_sizes(kind: ProofKind, size: int) -> None:
    found = summarize(post_shape(kind, size))
    assert (found["num_constraints"], found["num_inputs"], found["domain"]) == PRODUCTION[kind, size]
    assert (found["r1cs_sha256"] is None) == (kind is ProofKind.WINDOW_POST)


def test_derived_figures_equal_recorded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = replace(post_shape(ProofKind.WINDOW_POST, 32 * KIB), sectors=5)
    recorded = summarize(shape)
    monkeypatch.setattr(fallback_post, "MAX_RECORDED_ROWS", 40_000)
    assert summarize(shape) == recorded | {"r1cs_sha256": None, "r1cs_checkpoints": None}
