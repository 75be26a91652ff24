"""Key directories, and one cache for all runs of the command line that prove."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from prover.filecoin.shapes import ProofKind, circuit_shape

from .running import DATA, cuzk

WARNING = "cuzk: warning: local keys: not for the chain\n"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The directory of the vectors' verifying keys; their .params are too large to carry."""
    directory = tmp_path / "keys"
    directory.mkdir()
    for kind, name in zip(ProofKind, ("porep", "update", "window", "winning"), strict=True):
        shutil.copy(DATA / f"2k/{name}.vk", directory / f"{circuit_shape(kind, 2048).key_name}.vk")
    return directory


@pytest.fixture(scope="session")
def cache(kept: Path) -> dict[str, str]:
    """The environment with the cache of this run."""
    return os.environ | {"XDG_CACHE_HOME": str(kept / "cache")}


@pytest.fixture(scope="session")
def run(cache: dict[str, str]) -> Any:
    """`cuzk` with that cache, and time to compile."""

    def run(*arguments: Any) -> CompletedProcess[str]:
        return cuzk(*arguments, timeout=3600, env=cache)  # pytest has limits of its own

    return run


@pytest.fixture(scope="session")
def local(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with window keys of the published scalars."""
    directory = tmp_path_factory.mktemp("keys")
    setup = run("keys", "setup", "window-post", "--out", directory, "--scalars", DATA / "2k/window.setup.json")
    assert setup.returncode == 0, setup.stderr
    assert WARNING in setup.stderr
    assert "whoever knows them can forge proofs" in setup.stderr
    return directory
