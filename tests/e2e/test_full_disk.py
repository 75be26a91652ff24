"""The spool's disk runs full while a proof is made: it is delivered, nothing new is claimed, and all see why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Site, login
from tests.disks import small_disk
from tests.postgres import Database

from .running import PATIENCE_MS, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]


def state(database: Database, job: str) -> str:
    with database.connect() as connection:
        ((state,),) = connection.execute("SELECT state FROM job WHERE id = %s", [job]).fetchall()
    return str(state)


def test_a_full_disk_stops_claims_and_no_proof(page: Page, served: Site, window: Shared, tmp_path: Path) -> None:
    database = served.database
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (window.sample("window-post", folder) for folder in (tmp_path / "a", tmp_path / "b"))

    def status() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(window.cuzk("status", "--json", database=database))
        return found

    login(page, served)
    tag = page.locator(".prover .tag", has_text="spool_full")
    with (
        small_disk(tmp_path / "disk") as disk,
        proving(database, window, tmp_path / "p", f"daemon.spool={disk.folder}/spool", gates=("start-P0",)) as prover,
    ):
        accepted = submit(window, database, first)
        await_true(lambda: prover.reached("start-P0"))
        disk.fill()
        expect(tag).to_be_visible(timeout=PATIENCE_MS)
        assert status()["journal"]["trouble"] == "spool_full"
        waiting = submit(window, database, second)
        prover.open("start-P0")
        await_true(lambda: state(database, accepted) == "done")
        assert refused(window, first, delivered(database, accepted)) == []
        assert state(database, waiting) == "queued"
        disk.free()
        expect(tag).to_be_hidden(timeout=PATIENCE_MS)
        await_true(lambda: state(database, waiting) == "done")
        assert refused(window, second, delivered(database, waiting)) == []
