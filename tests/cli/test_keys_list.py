"""`cuzk keys list` and `keys check` on a key that is damaged where it lies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prover import cli
from prover.commands.exits import Exit

from .running import DATA

NAME = "v28-proof-of-spacetime-fallback-merkletree-poseidon_hasher-8-0-0-" + 64 * "7"


def damage(path: Path) -> None:
    """One bit, in place."""
    with path.open("r+b") as file:
        file.seek(-5, 2)
        last = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([last ^ 1]))


def test_a_list_calls_no_key_checked_that_was_changed_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> tuple[int, str]:
        code = cli.main(["keys", *words, "--keys", str(tmp_path)])
        return code, capsys.readouterr().out

    path = tmp_path / f"{NAME}.params"
    shutil.copy(DATA / "2k/tiny.params", path)
    assert "not checked yet" in said("list")[1]
    assert said("check")[0] == 0
    assert "MiB, checked, " in said("list")[1]
    damage(path)
    listed = said("list")[1]
    assert "changed since its check" in listed and "MiB, checked, " not in listed
    assert [key["changed"] for key in json.loads(said("list", "--json")[1])] == [True]
    code, text = said("check")
    assert code == Exit.KEYS and "[key_damaged]" in text
    assert "changed since its check" in said("list")[1]
    damage(path)  # the same bit again: the content that was checked
    assert said("check")[0] == 0
    assert "MiB, checked, " in said("list")[1]
