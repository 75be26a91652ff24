"""`cuzk sample` writes requests that check out."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.commands.exits import Exit
from prover.filecoin import partitions, request

from .running import cuzk


@pytest.mark.parametrize(
    ("arguments", "proofs", "count"),
    [
        (["window-post", "--sectors", "5"], 5, 3),
        (["winning-post", "--size", "4KiB"], 1, 1),
        (["snap-update", "--size", "16KiB"], 2, 2),
        (["porep-c2"], None, 1),
    ],
)
def test_the_request_is_valid(arguments: list[str], proofs: int | None, count: int, tmp_path: Path) -> None:
    out = tmp_path / "request.json"
    assert cuzk("sample", *arguments, "--seed", 7, "--out", out).returncode == 0
    found = request.parse_json(out.read_bytes())
    assert proofs is None or len(found.vanilla_proofs) == proofs
    assert len(partitions.partitions(found)) == count


def test_the_seed_decides() -> None:
    first, again, other = (cuzk("sample", "winning-post", "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again
    assert request.parse_json(first.encode()).digest != request.parse_json(other.encode()).digest


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["window-post", "--sectors", "0"], "--sectors: 0 given, 1 to 2048 allowed"),
        (["winning-post", "--sectors", "2"], "--sectors: winning-post proves one sector"),
        (["window-post", "--size", "8MiB"], "--size: samples are sealed in plain Python, up to 32768 bytes"),
        (["window-post", "--size", "8KiB"], "no window-post circuit for 8KiB"),
        (["snap-update", "--sectors", "2"], "--sectors: snap-update proves one sector"),
        (["porep-c2", "--size", "16KiB"], "sector_size: there is no seal proof of 16KiB"),
    ],
)
def test_what_cannot_be_sealed_is_refused(arguments: list[str], text: str) -> None:
    run = cuzk("sample", *arguments, "--seed", 1)
    assert run.returncode == Exit.BAD_INPUT
    assert text in run.stderr
    assert run.stdout == ""


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    run = cuzk("sample", "winning-post", "--seed", 1, "--out", tmp_path / "missing" / "request.json")
    assert run.returncode == Exit.UNAVAILABLE
    assert "[file_unwritable]" in run.stderr
