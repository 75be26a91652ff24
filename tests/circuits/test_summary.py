"""The figures of circuits, as the command line prints them; production sizes without writing the circuit out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from prover.circuits import summary
from prover.circuits.definitions import record
from prover.circuits.errors import CircuitTooLarge
from prover.circuits.summary import summarize
from prover.filecoin.errors import UnsupportedProof
from prover.filecoin.shapes import GIB, KIB, CircuitShape, PostShape, ProofKind, porep_shape, post_shape, update_shape
from tests.circuits.vectors import POST, SHAPES, counts, read_json


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


@pytest.mark.parametrize("size", [2 * KIB, 32 * KIB])
def test_counted_figures_equal_recorded_ones(size: int) -> None:
    shape = replace(post_shape(ProofKind.WINDOW_POST, size), sectors=3)
    recorded = counts(record(shape))
    assert {name: value for name, value in summarize(shape).items() if name in recorded} == recorded


@pytest.mark.parametrize(("name", "shape"), [("update", update_shape(2 * KIB)), ("porep", porep_shape(2 * KIB))])
def test_the_figures_of_the_circuits_with_sha256(
    name: str, shape: CircuitShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "MAX_DIGEST_ROWS", 0)
    found, vector = summarize(shape), read_json(POST / f"{name}.r1cs.json")
    shared = {key for key in found if key in vector} - {"name", "r1cs_sha256", "r1cs_checkpoints"}
    assert {key: found[key] for key in shared} == {key: vector[key] for key in shared}
    assert found["r1cs_sha256"] is None


def test_a_circuit_that_does_not_fit_in_memory_is_refused() -> None:
    shape = replace(porep_shape(64 * GIB), challenges=5_000)
    with pytest.raises(
        CircuitTooLarge, match=r"^the 36,[0-9,]+ rows of porep-c2 64GiB need [0-9],[0-9]{3},[0-9]{3} MiB"
    ):
        record(shape)


def test_a_kind_without_a_circuit_is_named() -> None:
    @dataclass(frozen=True)
    class Unknown(PostShape):
        pass

    shape = Unknown(ProofKind.WINDOW_POST, post_shape(ProofKind.WINDOW_POST, 2 * KIB).sector, 1, 1)
    with pytest.raises(UnsupportedProof, match="the circuit of window-post is not known"):
        summarize(shape)
