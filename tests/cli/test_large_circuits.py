"""SnapDeals and PoRep from set-up to proof: the bytes of the Rust stack where the scalars, r and s are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .running import DATA

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(("kind", "name"), [("snap-update", "update"), ("porep-c2", "porep")])
def test_the_published_proof_is_made_again(kind: str, name: str, run: Any, tmp_path: Path) -> None:
    keys, out = tmp_path / "keys", tmp_path / "proof"
    made = run("keys", "setup", kind, "--out", keys, "--scalars", DATA / f"2k/{name}.setup.json")
    assert made.returncode == 0, made.stderr
    (vk,) = keys.glob("*.vk")
    assert vk.read_bytes() == (DATA / f"2k/{name}.vk").read_bytes()
    published = json.loads((DATA / f"2k/{name}.proof.json").read_text())
    blinding = ["--r", published["r"], "--s", published["s"]]
    request = DATA / f"2k/requests/{kind}.json"
    proved = run("prove", request, "--keys", keys, "--out", out, *blinding)
    assert proved.returncode == 0, proved.stderr
    assert out.read_bytes().hex() == published["proof"]
    fresh = tmp_path / "fresh.json"
    assert run("sample", kind, "--seed", 11, "--out", fresh).returncode == 0
    assert run("prove", fresh, "--keys", keys, "--out", out).returncode == 0
    assert run("verify", fresh, out, "--keys", keys).returncode == 0
