"""JAX as the tests use it: 64-bit types and two CPU devices, configured once before any array exists; what is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover import jaxconf

jaxconf.configure("cpu", cpu_devices=2)
os.environ.setdefault("CUZK_MEMORY__HOST_MEMORY", "0")  # provers that tests start make no tables in the background


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded circuits and programs of the processes that prove; CUZK_E2E_FOLDER keeps them for the next run."""
    folder = os.environ.get("CUZK_E2E_FOLDER")
    return Path(folder) if folder else tmp_path_factory.mktemp("kept")
