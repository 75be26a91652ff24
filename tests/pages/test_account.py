"""Login, roles and logout, as a person meets them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser import PASSWORD, Site, login

pytestmark = [pytest.mark.browser, pytest.mark.postgres]


def test_login_leads_to_the_page_that_was_wanted(served: Site, page: Page) -> None:
    page.goto(f"{served.url}jobs/?state=failed")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Username").fill("vera")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("correct username and password")
    page.get_by_label("Username").fill("vera")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile(r"/jobs/\?state=failed$"))
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(f"{served.url}jobs/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "links"),
    [("vera", []), ("olga", ["Submit", "Admin"])],
)
def test_a_person_is_shown_what_the_role_allows(served: Site, page: Page, name: str, links: list[str]) -> None:
    login(page, served, name)
    all_see = ["Live", "Replay", "History", re.compile("^Alerts"), "Statistics"]
    expect(page.get_by_role("navigation", name="Site").get_by_role("link")).to_have_text([*all_see, *links])


def test_who_has_no_role_is_told_so_and_can_leave(served: Site, page: Page) -> None:
    page.forgive = re.compile("403")  # type: ignore[attr-defined]
    login(page, served, "sam")
    expect(page.get_by_text("Your account has no role yet")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_times_carry_their_zone(served: Site, page: Page) -> None:
    login(page, served, "olga")
    page.goto(f"{served.url}submit/")
    page.get_by_label("Submit the sample: WindowPoSt").click()
    page.wait_for_url(re.compile("/jobs/"))  # until its scripts have run
    when = page.locator("dl time").first
    expect(when).to_have_attribute("title", re.compile(r"\d\d:\d\d:\d\d UTC$"))
    page.get_by_role("button", name="UTC", exact=True).click()
    expect(when).to_have_attribute("title", re.compile(r"local \(UTC[+−]\d\d:\d\d\)$"))
