"""`cuzk keys tables` where nothing can be kept: an error, for that is all it is for."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from prover import cli, jaxconf
from prover.circuits.synthesis import Circuit
from prover.commands.exits import Exit
from prover.filecoin.shapes import ProofKind, post_shape
from tests.groth16.vectors import recorded

from .running import DATA

KEY = post_shape(ProofKind.WINDOW_POST, 2048).key_name


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the key of a small circuit under the name of a large one, which that is taken for."""
    directory = tmp_path / "keys"
    directory.mkdir()
    shutil.copy(DATA / "2k/tiny.params", directory / f"{KEY}.params")
    monkeypatch.setattr(jaxconf, "configure", lambda *_, **__: jaxconf.devices("cpu"))
    monkeypatch.setattr(Circuit, "load", lambda *_: SimpleNamespace(matrices=recorded("tiny")))
    monkeypatch.setenv("CUZK_CACHE__DIRECTORY", str(tmp_path / "cache"))
    return directory


def made(keys: Path) -> int:
    return cli.main(["keys", "tables", "--keys", str(keys)])


def test_they_are_kept_in_the_configured_folder(keys: Path, tmp_path: Path) -> None:
    assert made(keys) == Exit.OK
    assert len(list(tmp_path.glob("cache/tables/*/*.rows"))) == 5


def test_a_folder_that_cannot_be_written_is_an_error(
    keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").touch()
    assert made(keys) == Exit.UNAVAILABLE
    assert "cache.directory" in (said := capsys.readouterr().err) and "[tables_not_kept]" in said


def test_a_full_disk_is_an_error(
    keys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert made(keys) == Exit.UNAVAILABLE
    assert "No space left" in (said := capsys.readouterr().err) and "[tables_not_kept]" in said
