"""`cuzk circuit` prints the published figures."""

from __future__ import annotations

import json

import pytest

from prover.commands.exits import Exit

from .running import DATA, cuzk


@pytest.mark.parametrize("kind", ["window", "winning"])
def test_every_published_figure(kind: str) -> None:
    run = cuzk("circuit", f"{kind}-post", "--size", "2KiB", "--json")
    found, published = json.loads(run.stdout), json.loads((DATA / f"2k/{kind}.r1cs.json").read_text())
    names = set(found) & set(published) - {"name"}
    assert names >= {
        "num_constraints",
        "num_inputs",
        "num_aux",
        "domain",
        "a_aux_density",
        "b_aux_density",
        "r1cs_sha256",
    }
    assert {name: found[name] for name in names} == {name: published[name] for name in names}
    assert found["name"] == f"{kind}-post"


def test_a_circuit_that_is_too_large_to_write_out() -> None:
    run = cuzk("circuit", "window-post", "--size", "32 GiB")
    assert run.returncode == 0
    assert "num_constraints     125,279,217\n" in run.stdout
    assert "r1cs_sha256         not computed" in run.stdout


def test_there_is_no_such_circuit() -> None:
    run = cuzk("circuit", "window-post", "--size", "3KiB")
    assert run.returncode == Exit.USAGE
    assert "'3KiB' is none of 2KiB, 4KiB" in run.stderr
