"""The whole product in processes of its own: Postgres, web, prover, browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.filecoin.shapes import ProofKind

from .running import Shared


@pytest.fixture(scope="session")
def shared(kept: Path) -> Shared:
    """Keys, recorded circuits and compiled programs of this run."""
    return Shared(kept)


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
