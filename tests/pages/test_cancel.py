"""A job is cancelled from its page: the person is asked first; a job at work waits for its prover's answer."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from prover.stack.roles import OWNER
from tests.browser import Site, login, screenshot

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

HELD = """
WITH made AS (
    INSERT INTO session (id, prover, host, machine, version, head_seq, state, state_at, times, detail, moved_seq,
                         started_at, heartbeat_at, lease_until)
    VALUES (%s, 'alpha', '', '', '', 0, 'online', now(), '{}', '{}', 0, now(), now(), now() + interval '5 min')
    RETURNING id)
UPDATE job SET state = 'running', session_id = made.id FROM made WHERE state = 'queued'
"""


def submitted(page: Page, served: Site) -> None:
    """A sample becomes a job, and its page is shown."""
    page.goto(f"{served.url}submit/")
    page.get_by_role("button", name=re.compile("Submit the sample")).first.click()
    expect(page.get_by_role("heading", name="Partitions and attempts")).to_be_visible()


def test_an_operator_cancels_a_waiting_job(served: Site, page: Page) -> None:
    login(page, served, "olga")
    submitted(page, served)
    address = page.url
    page.get_by_role("link", name="Cancel…").click()
    expect(page.get_by_role("heading", name=re.compile(r"^Cancel job \d+\?$"))).to_be_visible()
    screenshot(page, "job-cancel")
    page.get_by_role("link", name="Back").click()
    expect(page.locator("#job-state")).to_have_text("queued")
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page).to_have_url(address)
    expect(page.get_by_text("Cancelled.")).to_be_visible()
    expect(page.locator("#job-state")).to_have_text("cancelled")
    expect(page.get_by_role("link", name="Cancel…")).to_have_count(0)


def test_a_job_at_work_waits_for_its_prover(served: Site, page: Page) -> None:
    login(page, served, "olga")
    submitted(page, served)
    with served.database.connect(OWNER) as owner:
        owner.execute(HELD, [uuid.uuid4()])
        page.get_by_role("link", name="Cancel…").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.get_by_text("its prover has not answered yet")).to_be_visible()
        expect(page.locator("#job-state")).to_have_text("running")
        owner.execute(
            "UPDATE command SET state = 'refused', outcome = 'no such job is open here', answered_at = now()"
            " WHERE action = 'cancel' AND state = 'pending'"
        )
    page.reload()
    expect(page.get_by_text("no such job is open here")).to_be_visible()


def test_a_viewer_is_not_offered_it(served: Site, page: Page) -> None:
    with served.database.connect(OWNER) as owner:
        (job,) = owner.execute("SELECT id FROM job WHERE state = 'running'").fetchone() or ("",)
    login(page, served, "vera")
    page.goto(f"{served.url}jobs/{job}/")
    expect(page.locator("#job-state")).to_have_text("running")
    expect(page.get_by_role("link", name="Cancel…")).to_have_count(0)
