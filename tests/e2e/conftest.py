"""The whole product in processes of its own: Postgres, web, prover, browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover.filecoin.shapes import ProofKind

from .running import Shared


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """Keys, recorded circuits and compiled programs of this run; CUZK_E2E_FOLDER keeps them for the next."""
    kept = os.environ.get("CUZK_E2E_FOLDER")
    return Shared(Path(kept) if kept else tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def window(shared: Shared) -> Shared:
    """With window keys."""
    shared.need(ProofKind.WINDOW_POST)
    return shared


@pytest.fixture(scope="session")
def winning(shared: Shared) -> Shared:
    """With winning keys."""
    shared.need(ProofKind.WINNING_POST)
    return shared
