"""A tail that ends late, while its worker proves the next partition: the card never reads idle.

One worker and real proofs; only the moments are chosen, by gates around the steps of the real kind (observed.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Site, login, screenshot

from . import observing
from .running import PATIENCE_MS, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]


def test_the_card_never_reads_idle(page: Page, served: Site, window: Shared, tmp_path: Path) -> None:
    request = window.sample("window-post", tmp_path, "--sectors", 3)
    one_worker = ("gpus.cpu_devices=1", "gpus.gpu_workers_per_device=1")
    with proving(served.database, window, tmp_path, *one_worker, gates=("finish-P0", "start-P1")) as prover:
        login(page, served)
        page.wait_for_selector(".card.worker[data-state=idle]", timeout=PATIENCE_MS)
        observing.observe(page)
        job = submit(window, served.database, request)
        card = page.locator(".card.worker")
        expect(card).to_have_attribute("data-state", "proving", timeout=PATIENCE_MS)
        await_true(lambda: prover.reached("finish-P0") and prover.reached("start-P1"))
        expect(card.locator(".worker-tail")).to_contain_text("finalizing: P0", timeout=PATIENCE_MS)
        expect(card.locator(".partition")).to_have_text("P1")
        expect(card.locator(".phase")).to_have_text("device")
        screenshot(page, "late-finalizer")
        began = len(observing.observed(page))
        prover.open("finish-P0")
        expect(card.locator(".last")).to_contain_text("P0", timeout=PATIENCE_MS)
        expect(card.locator(".worker-tail")).to_be_hidden()
        expect(card.locator(".partition")).to_have_text("P1")
        window_of_truth = observing.observed(page)[began - 1 :]
        prover.open("start-P1")
        badge = page.locator(f"[data-job='{job}'] .job-head .badge")
        expect(badge).to_have_text("done", timeout=PATIENCE_MS)
        assert prover.stop() == 0, prover.log
    assert {sample["cards"][0]["state"] for sample in window_of_truth} == {"proving"}
    assert {sample["cards"][0]["partition"] for sample in window_of_truth} == {"P1"}
    observing.assert_page_is_right(page, served.database)
    observing.assert_log_is_true(served.database, prover.truth(), attempts=2)
    assert refused(window, request, delivered(served.database, job)) == []
