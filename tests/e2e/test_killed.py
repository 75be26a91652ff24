"""SIGKILL of the prover while a partition is on the device: shown lost, then proved and counted once. So the replay."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.browser import Site, login, screenshot
from tests.postgres import Database

from . import observing, replaying
from .running import PATIENCE_MS, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]
LOST_WITHIN_S = 15.0


def test_what_a_killed_prover_held_is_proved_by_the_next(
    page: Page, served: Site, window: Shared, tmp_path: Path
) -> None:
    request = window.sample("window-post", tmp_path, "--sectors", 5)
    login(page, served)
    with proving(served.database, window, tmp_path / "first", gates=("start-P0",)) as first:
        page.wait_for_selector(".card.worker[data-state=idle]", timeout=PATIENCE_MS)
        observing.observe(page)
        job = submit(window, served.database, request)
        await_true(lambda: first.reached("start-P0"))
        held = page.locator(".card.worker", has=page.get_by_text("P0", exact=True))
        expect(held.locator(".phase")).to_have_text("device", timeout=PATIENCE_MS)
        family = psutil.Process(first.process.pid).children(recursive=True)
        assert family, "no process beats its heart"
        first.process.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        first.process.wait()
        await_true(lambda: not any(process.is_running() for process in family))
        cards = page.locator(".card.worker")
        for number in range(4):
            expect(cards.nth(number)).to_have_attribute("data-state", "lost", timeout=2 * LOST_WITHIN_S * 1000)
            expect(cards.nth(number)).to_have_attribute("data-fresh", "no")
        assert time.monotonic() - killed_at < LOST_WITHIN_S
    expect(page.locator(".prover .badge").first).to_contain_text("daemon lost")
    expect(page.locator(f"[data-job='{job}'] .job-head .badge")).to_have_text("queued")
    screenshot(page, "killed")
    with proving(served.database, window, tmp_path / "second") as second:
        expect(page.locator(f"[data-job='{job}'] .job-head .badge")).to_have_text("done", timeout=2 * PATIENCE_MS)
        expect(cards.first).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)
        names = page.locator(f"[data-job='{job}'] .tl-names > div")
        assert names.all_inner_texts() == ["P0", "P0 ×2", "P1", "P1 ×2", "P2", "P2 ×2"]
        done = page.locator(".counter", has_text="Done").locator(".value")
        expect(done).to_have_text("1")
        assert second.stop() == 0, second.log
    assert_counted_once(served.database, job)
    assert refused(window, request, delivered(served.database, job)) == []
    replaying.assert_same_cards(page, served)


def assert_counted_once(database: Database, job: str) -> None:
    with database.connect() as connection:
        ((ends,),) = connection.execute(
            "SELECT count(*) FROM transition WHERE entity = 'job' AND job = %s AND new = 'done'", [job]
        ).fetchall()
        assert ends == 1
        assert connection.execute("SELECT kind, state, count FROM counter").fetchall() == [("window-post", "done", 1)]
        lost = connection.execute("SELECT count(*) FROM attempt WHERE state = 'lost' AND job_id = %s", [job]).fetchone()
        assert lost is not None and lost[0] >= 1
        assert connection.execute("SELECT losses FROM job WHERE id = %s", [job]).fetchall() == [(1,)]
