"""From a request to its job's page, and from there into the history."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from cuzk_web.submission.samples import SAMPLES
from tests.browser import Site, login

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
    expect(page.get_by_text(re.compile(r"Submitted: this is job \d+\."))).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("WindowPoSt")
    expect(page.get_by_role("heading", level=1)).to_contain_text("wdpost-1000-0-mine")
    expect(page.locator("#job-state")).to_have_text("queued")
    submit(page, served, WINDOW, "wdpost-1000-0-mine")
    expect(page.get_by_text(re.compile(r"This request is job \d+ already"))).to_be_visible()
    page.get_by_role("link", name="History").first.click()
    page.get_by_label("Search").fill("0-mine")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"q=0-mine"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("no-such-job")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    expect(page.get_by_role("link", name="wdpost-1000-0-mine")).to_be_visible()


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
