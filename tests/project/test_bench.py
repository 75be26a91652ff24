"""The benches' own words: what is asked is asked of the circuits that there are, and their tables say what came out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import proof
from bench.asked import ASKED, NOT_MEASURED, markdown
from prover.circuits.definitions import count
from prover.filecoin.shapes import ProofKind, circuit_shape

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("kind", ProofKind)
def test_what_is_asked_names_the_size_of_the_circuit(kind: ProofKind) -> None:
    shape = circuit_shape(kind, 2048)
    constraints = count(shape).counts.constraints
    log2 = (constraints + shape.num_inputs - 1).bit_length()
    assert ASKED[kind].name.endswith(f" {constraints:,}, 2^{log2}")


def one(seconds: float, peer: float | None) -> dict[str, Any]:
    other = {} if peer is None else {"peer": {"prove_s": peer, "peak_mib": 2048.0}}
    return {"whole_s": seconds, "parts": {"synthesis": seconds / 20}, **other}


def test_a_row_has_best_and_median_and_the_ratio_of_the_best() -> None:
    found = {"plain": [one(6.0, 4.0), one(4.0, 5.0), one(5.0, 6.0)], "peak_mib": 1536.0}
    row = dict(zip(proof.HEAD, proof.row("winning-post", "plain", found), strict=True))
    assert row["ours, s: best (median)"] == "4.00 (5.00)"
    assert row["bellperson, s: best (median)"] == "4.00 (5.00)"
    assert (row["ratio of the best"], row["synthesis"]) == ("1.00", "5.0% (<= 10%)")
    assert (row["peak"], row["its peak"]) == ("1.50 GiB", "2.00 GiB")


def test_what_no_peer_did_is_not_measured() -> None:
    row = proof.row("porep-c2", "plain", {"plain": [one(70.0, None)], "peak_mib": 7000.0})
    assert row[1:5] == [NOT_MEASURED, NOT_MEASURED, "70.00 (70.00)", NOT_MEASURED]


def test_a_table_lines_up() -> None:
    assert markdown(["a", "bb"], [["ccc", "d"]]).splitlines() == ["| a   | bb |", "| --- | -- |", "| ccc | d  |"]


def test_unknown_names_are_refused() -> None:
    assert "no bench speed; there are start, proof" in bench("speed").stderr
    assert "no bench --large" in bench("start", "--large").stderr
    refused = bench("proof", "porep")
    assert refused.returncode == 2 and "no circuit porep" in refused.stderr
