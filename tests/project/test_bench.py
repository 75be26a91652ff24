"""The benches' own words: what is asked is asked of the circuits that there are, and their tables say what came out."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import growth, proof
from bench.asked import ASKED, NOT_MEASURED, markdown
from prover.circuits.definitions import count
from prover.circuits.fallback_post import sector_rows
from prover.circuits.synthesis import Circuit
from prover.filecoin.post import PostInstance
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


def test_circuits_that_grow_are_filled_alike_and_satisfied() -> None:
    filled = [growth.shape_of(log2) for log2 in (15, 20)]
    shares = [(sector_rows(s) * s.sectors + s.num_inputs) / 2**log2 for s, log2 in zip(filled, (15, 20), strict=True)]
    assert 0.99 < min(shares) < max(shares) <= 1
    shape = growth.shape_of(14)
    instance = PostInstance((growth.random_sector(shape, random.Random(1)),))
    Circuit.load(shape, None).synthesize(instance)


def test_growth_is_told_against_the_first_size() -> None:
    one = {"cpu_s": 1.0, "idle_mib": 100.0}
    small = one | {"log2": 15, "constraints": 1000, "whole_s": 1.0, "peak_mib": 300.0}
    large = one | {"log2": 16, "constraints": 2000, "whole_s": 3.0, "peak_mib": 450.0}
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in growth.table([small, large]).splitlines()]
    assert cells[2][4:] == ["1000.0", "1.00", "300", "200", "307.20", "1.00"]
    assert cells[3][4:] == ["1500.0", "1.50", "450", "350", "230.40", "0.75"]
