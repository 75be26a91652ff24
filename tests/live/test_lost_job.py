"""A prover that is lost: marked by the site within its lease, its job queued again, and the page says all of it."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from prover.stack.roles import OWNER
from tests.browser import Site, login

from .test_live_page import Fleet, wait_for_seq
from .writer import Writer

pytestmark = [pytest.mark.browser, pytest.mark.postgres]


def test_the_site_marks_a_silent_prover_lost_and_the_page_shows_its_job_queued_again(served: Site, page: Page) -> None:
    with served.database.connect(OWNER) as connection:
        fleet = Fleet(Writer(connection))
        login(page, served)
        fleet.story.now_us = time.time_ns() // 1000 - 2_000_000
        fleet.story.submit("window-post", "orphan", partitions=2)
        fleet.catch_up()
        wait_for_seq(page, fleet)
        expect(page.locator(".job .badge")).to_have_text("running")
        expect(page.locator(".prover .badge").first).to_have_text(
            re.compile(r"^daemon lost \d\d:\d\d$"), timeout=40_000
        )
        expect(page.locator(".worker .badge")).to_have_text(["lost"] * 4)
        expect(page.locator('.worker[data-fresh="no"]')).to_have_count(4)
        expect(page.locator(".job .badge")).to_have_text("queued")
        expect(page.locator(".job-facts")).to_contain_text(re.compile(r"queued again \d+.* ago"))
        expect(page).to_have_title("prover lost – cuzk")
        assert connection.execute("SELECT state FROM session WHERE id = %s", [fleet.story.session]).fetchone() == (
            "lost",
        )
