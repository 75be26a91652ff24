"""From a request to its job's page, and from there into the history."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from cuzk_web.submission.samples import SAMPLES
from tests.browser import Site, login, screenshot, watched

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

WINDOW = SAMPLES["window-post"].read()


def file_of(content: bytes) -> dict[str, object]:
    return {"name": "request.json", "mimeType": "application/json", "buffer": content}


def submit(page: Page, served: Site, content: bytes, request_id: str = "") -> None:
    page.goto(f"{served.url}submit/")
    page.get_by_label("Request file").set_input_files(files=[file_of(content)])  # type: ignore[list-item]
    page.get_by_label("Request id").fill(request_id)
    page.get_by_role("button", name="Submit", exact=True).first.click()


def test_a_file_becomes_a_job_that_can_be_found(served: Site, page: Page) -> None:
    login(page, served, "olga")
    submit(page, served, WINDOW, "wdpost-1000-0-mine")
    expect(page.get_by_text("Submitted: this is job 1.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("WindowPoSt")
    expect(page.get_by_role("heading", level=1)).to_contain_text("wdpost-1000-0-mine")
    expect(page.locator("#job-state")).to_have_text("queued")
    submit(page, served, WINDOW, "wdpost-1000-0-mine")
    expect(page.get_by_text("This request is job 1 already")).to_be_visible()
    page.get_by_role("link", name="History").first.click()
    page.get_by_label("Search").fill("0-mine")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"q=0-mine"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("no-such-job")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_bad_request_is_refused_by_code_field_and_limit(served: Site, page: Page) -> None:
    page.forgive = re.compile("400")  # type: ignore[attr-defined]
    login(page, served, "olga")
    submit(page, served, json.dumps(json.loads(WINDOW) | {"vanillaProofs": ["AAAA"]}).encode())
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("truncated_vanilla_proof")
    expect(alert).to_contain_text("vanilla_proofs[0]")
    expect(alert).to_contain_text("3 bytes given")


def test_a_sample_is_one_click(served: Site, page: Page) -> None:
    login(page, served, "olga")
    page.goto(f"{served.url}submit/")
    page.get_by_label("Submit the sample: A whole deadline").click()
    expect(page.get_by_text("0 of 13 proved, from index 0")).to_be_visible()


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
            page.goto(f"{served.url}jobs/")
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


@pytest.mark.parametrize("label", ["<img src=x onerror=alert(1)>", "\u202edlrow olleh", "🧨" * 90])
def test_a_hostile_label_is_text(served: Site, fleet: Fleet, page: Page, label: str) -> None:
    job = fleet.story.submit("window-post", label, submitted_by=label)
    fleet.flush()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    login(page, served, "vera")
    for path in ("jobs/", f"jobs/{job}/"):
        page.goto(served.url + path)
        expect(page.locator("main .label").first).to_have_attribute("title", label)
        assert page.locator("main img").count() == 0
