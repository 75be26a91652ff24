"""`cuzk up` over a folder that cannot be written: it says which, with a code, and starts nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prover.commands.exits import Exit
from tests.disks import small_disk
from tests.postgres import ROOT


def up(home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "prover", "up"]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"CUZK_HOME": str(home)}, capture_output=True, text=True, timeout=60
    )  # fmt: skip


@pytest.mark.parametrize("exists", [False, True], ids=["nothing there", "with its folders"])
def test_read_only(tmp_path: Path, exists: bool) -> None:
    with small_disk(tmp_path / "disk") as disk:
        home = disk.folder / "var"
        if exists:
            for name in ("log", "keys", "cache", "spool", "secrets"):
                (home / name).mkdir(parents=True)
        disk.make_read_only()
        said = up(home)
        left = sorted(path.name for path in home.iterdir()) if exists else []
    assert (said.returncode, said.stdout) == (Exit.UNAVAILABLE, "")
    assert said.stderr == f"cuzk: error: CUZK_HOME: {home}: Read-only file system [data_folder_unwritable]\n"
    assert left == (["cache", "keys", "log", "secrets", "spool"] if exists else [])


def test_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "var").touch()
    said = up(tmp_path / "var")
    assert said.returncode == Exit.UNAVAILABLE
    assert f"CUZK_HOME: {tmp_path / 'var'}: File exists [data_folder_unwritable]" in said.stderr
