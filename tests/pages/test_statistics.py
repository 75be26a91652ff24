"""The pages of the statistics and the list's filters in a browser: nothing breaks, nothing runs over."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Site, login, screenshot

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

LOOKS = [(width, height, scheme) for width, height in ((1440, 900), (390, 844)) for scheme in ("light", "dark")]


def look(page: Page, name: str) -> None:
    """Wide and on a phone, light and dark: never wider than the screen."""
    for width, height, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(120)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        screenshot(page, f"{name}-{'wide' if width > 640 else 'phone'}-{scheme}")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_pages(served: Site, fleet: Fleet, page: Page) -> None:
    story = fleet.story
    story.fail = lambda request, partition, no: request == "deadline-2" and no == 1
    for n in range(6):
        story.submit("window-post" if n % 2 else "snap-update", f"deadline-{n}", partitions=3)
    fleet.run(40)
    with served.database.connect() as owner:
        owner.execute("UPDATE job SET state = 'failed', error_code = 'device_memory', error_message = 'no room'"
                      " WHERE request_id = 'deadline-3'")  # fmt: skip
    login(page, served)
    page.goto(f"{served.url}jobs/?worker=prover-1/0/0&state=ended")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.get_by_label("Name of the view").fill("done by W0")
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("navigation", name="Saved views").get_by_role("link")).to_have_text(["done by W0"])
    look(page, "jobs")
    page.get_by_role("button", name="Delete the saved view done by W0").click()
    expect(page.get_by_text("done by W0")).to_have_count(0)
    page.goto(f"{served.url}statistics/workers/")
    expect(page.locator("#worker-timeline canvas")).to_be_visible()
    expect(page.get_by_role("table", name="What each worker did over time")).to_contain_text("deadline-")
    look(page, "workers")
    page.goto(f"{served.url}statistics/failures/")
    expect(page.get_by_role("link", name="device_memory")).to_be_visible()
    look(page, "failures")
    page.goto(f"{served.url}statistics/compare/?a=1&b=2")
    expect(page.get_by_role("rowheader", name="total")).to_be_visible()
    look(page, "compare")
    page.goto(f"{served.url}statistics/")
    for _ in range(60):  # the keeper sums
        if page.locator("#chart canvas").count():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(page.locator("#chart canvas")).to_be_visible()
    look(page, "statistics")
