"""Every job in exactly one end, counted once, whatever fails meanwhile; the long run is for acceptance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import Database
from tests.soak.soak import Soak

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("seed", [20261130])
def test_a_short_soak(database: Database, tmp_path: Path, seed: int) -> None:
    soak = Soak(database, tmp_path, seed, jobs=80, every=10)
    soak.run()
    assert soak.faults["lose"], soak.faults


@pytest.mark.acceptance
@pytest.mark.timeout(3600)
def test_two_thousand_jobs(own_server: Database, tmp_path: Path) -> None:
    soak = Soak(own_server, tmp_path, 7, jobs=2000, every=25, restarts=True)
    soak.run()
    print(soak.faults, [size >> 20 for size in soak.rss])
    quarter = len(soak.rss) // 4
    second, last = soak.rss[quarter : 2 * quarter], soak.rss[-quarter:]
    assert max(last) <= 1.05 * max(second), "memory is flat"
