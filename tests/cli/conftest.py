"""A key directory with a verifying key of the published set-up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prover.filecoin.shapes import ProofKind, post_shape

from .running import DATA


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The directory of the published window and winning keys; their .params are too large to carry."""
    directory = tmp_path / "keys"
    directory.mkdir()
    for kind, name in ((ProofKind.WINDOW_POST, "window"), (ProofKind.WINNING_POST, "winning")):
        shutil.copy(DATA / f"2k/{name}.vk", directory / f"{post_shape(kind, 2048).key_name}.vk")
    return directory
