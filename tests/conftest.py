"""JAX as the tests use it: 64-bit types and two CPU devices, configured once before any array exists; what is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover import jaxconf

jaxconf.configure("cpu", cpu_devices=2)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded circuits and programs of the processes that prove; CUZK_E2E_FOLDER keeps them for the next run."""
    folder = os.environ.get("CUZK_E2E_FOLDER")
    return Path(folder) if folder else tmp_path_factory.mktemp("kept")
