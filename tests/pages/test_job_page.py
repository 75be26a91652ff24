"""The history and the page of a job, at work and done, on a wide screen and the smallest phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Site, login, screenshot, watched

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]


def test_a_jobs_page_shows_its_partitions_and_turns_to_the_result(served: Site, fleet: Fleet, page: Page) -> None:
    job = fleet.story.submit("window-post", "wdpost-1000-0-deadline", partitions=13)
    fleet.run(6)
    login(page, served, "vera")
    page.goto(f"{served.url}jobs/{job}/")
    expect(page.locator("#job-state")).to_have_text("running")
    expect(page.locator("#waterfall canvas").first).to_be_visible()
    rows = page.locator("section[aria-labelledby=attempts] tbody tr").filter(has_text=re.compile("P12"))
    expect(rows.first).to_be_visible()
    screenshot(page, "job-running")
    fleet.run(300)
    expect(page.locator("#job-state")).to_have_text("done", timeout=15_000)  # by itself
    expect(page.get_by_role("cell", name="total, submitted to ended")).to_be_visible()
    screenshot(page, "job-done")


def test_two_market_ids_can_be_told_apart_on_the_smallest_phone(served: Site, fleet: Fleet, browser: Browser) -> None:
    names = ["ps-snap-1000-123456", "ps-snap-1000-123457", "p" * 300 + "6" + "q" * 300, "p" * 300 + "7" + "q" * 300]
    jobs = [fleet.story.submit("snap-update", name) for name in names]
    fleet.flush()
    context = browser.new_context(viewport={"width": 320, "height": 640})
    try:
        with watched(context) as page:
            login(page, served, "vera")
            page.goto(f"{served.url}jobs/?kind=snap-update")
            labels = page.locator("td[data-name=Request] .label")
            shown = labels.all_inner_texts()
            assert len(set(shown)) == 4 and set(names[:2]) <= set(shown)
            for label in labels.all():
                box = label.bounding_box()
                assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 320
            assert page.evaluate("document.documentElement.scrollWidth") <= 320
            screenshot(page, "history-320")
            page.goto(f"{served.url}jobs/{jobs[2]}/")
            assert page.evaluate("document.documentElement.scrollWidth") <= 320
    finally:
        context.close()


def test_hostile_labels_are_text(served: Site, fleet: Fleet, page: Page) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    login(page, served, "vera")
    for label in ("<img src=x onerror=alert(1)>", "\u202edlrow olleh", "🧨" * 90):
        job = fleet.story.submit("window-post", label, submitted_by=label)
        fleet.flush()
        for path in ("jobs/", f"jobs/{job}/"):
            page.goto(served.url + path)
            expect(page.locator("main .label").first).to_have_attribute("title", label)
            assert page.locator("main img").count() == 0
