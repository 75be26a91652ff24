"""The length of a lease is the database's lease_length(): the page and the documents say the same."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.postgres import ROOT, Database

#: file -> where it says the length, in the unit that the number is divided by
SAID = {
    "static/js/lease.js": (r"LEASE_MS = ([0-9_]+);", 1000),
    "docs/architecture.md": (r"a lease of (\d+) s|heard for (\d+) s|heartbeat is (\d+) s old", 1),
    "docs/stack.md": (r"A lease is (\d+) s", 1),
}


@pytest.fixture
def lease(owner_dsn: str, database: Database) -> float:
    with psycopg.connect(owner_dsn) as owner:
        ((seconds,),) = owner.execute("SELECT extract(epoch FROM lease_length())::float8").fetchall()
    return float(seconds)


@pytest.mark.postgres
def test_the_lease_is_as_long_everywhere(lease: float) -> None:
    for file, (pattern, unit) in SAID.items():
        groups = [number for found in re.finditer(pattern, (ROOT / file).read_text()) for number in found.groups()]
        said = [float(number.replace("_", "")) / unit for number in groups if number]
        assert len(said) == pattern.count("|") + 1, file
        assert set(said) == {lease}, file
