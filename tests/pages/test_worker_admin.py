"""Pause and drain in the admin: the person is asked, the prover answers, both are shown there and on the live page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import Site, login, screenshot

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]


def choose(page: Page, served: Site, worker: str, action: str) -> None:
    page.goto(f"{served.url}admin/fleet/worker/")
    page.get_by_role("row", name=worker).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(action)
    page.get_by_role("button", name="Go").click()


def test_an_operator_pauses_a_worker_and_resumes_it(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "olga")
    choose(page, served, "W1", "pause")
    expect(page.get_by_text("Asked W1 (prover-1/0/1) to pause.")).to_be_visible()
    row = page.get_by_role("row", name="W1")
    expect(row).to_contain_text("pending")
    fleet.answer("paused: it takes nothing new", admin="paused")
    page.reload()
    expect(row).to_contain_text("paused: it takes nothing new")
    screenshot(page, "admin-paused")
    page.goto(served.url)
    expect(page.locator('[data-worker="prover-1/0/1"]')).to_contain_text("paused", timeout=2000)
    choose(page, served, "W1", "pause")
    expect(page.get_by_text("Refused: W1: it is paused already")).to_be_visible()
    choose(page, served, "W1", "resume")
    fleet.answer("enabled", admin="enabled")
    page.reload()
    expect(page.get_by_role("row", name="W1")).to_contain_text("enabled")


def test_a_drain_is_asked_twice_and_a_refusal_is_shown(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "olga")
    choose(page, served, "W0", "drain")
    expect(page.get_by_role("heading", name="Drain 1 worker?")).to_be_visible()
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("row", name="W0")).not_to_contain_text("drain")
    choose(page, served, "W0", "drain")
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_text("Asked W0 (prover-1/0/0) to drain.")).to_be_visible()
    fleet.answer("no: its device is being checked")
    page.goto(f"{served.url}admin/fleet/command/")
    row = page.get_by_role("row", name="drain")
    for word in ("refused", "no: its device is being checked", "olga"):
        expect(row).to_contain_text(word)


def test_a_card_of_the_live_page_has_the_buttons(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "olga")
    card = page.locator('[data-worker="prover-1/1/1"]')
    expect(card.get_by_role("button", name="Resume")).to_be_hidden()
    card.get_by_role("button", name="Pause W3").click()
    expect(card.get_by_role("status")).to_contain_text("pause asked")
    fleet.answer("paused: it takes nothing new", admin="paused")
    expect(card.locator(".badge")).to_have_text("paused", timeout=2000)
    card.get_by_role("button", name="Resume W3").click()
    expect(card.get_by_role("status")).to_contain_text("resume asked")
    fleet.answer("enabled", admin="enabled")
    expect(card.locator(".badge")).to_have_text("idle", timeout=2000)
    page.on("dialog", lambda dialog: dialog.dismiss())
    card.get_by_role("button", name="Drain W3").click()
    expect(card.get_by_role("button", name="Drain W3")).to_be_enabled()
    count = fleet.writer.connection.execute(
        "SELECT count(*) FROM command WHERE action = 'drain' AND target = %s", ["prover-1/1/1"]
    ).fetchone()
    assert count == (0,)  # the person said no
    screenshot(page, "live-buttons")


def test_a_disabled_worker_is_enabled_from_its_card(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "olga")
    choose(page, served, "W2", "disable")
    expect(page.get_by_role("heading", name="Disable 1 worker?")).to_be_visible()
    page.get_by_role("button", name="Disable").click()
    fleet.answer("disabled: it takes nothing new", admin="disabled")
    page.goto(served.url)
    card = page.locator('[data-worker="prover-1/1/0"]')
    expect(card.locator(".badge")).to_have_text("disabled", timeout=2000)
    expect(card.get_by_role("button", name="Resume")).to_be_hidden()
    card.get_by_role("button", name="Enable W2").click()
    expect(card.get_by_role("status")).to_contain_text("enable asked")
    fleet.answer("enabled", admin="enabled")
    expect(card.locator(".badge")).not_to_have_text("disabled", timeout=2000)
    choose(page, served, "W2", "restart")
    expect(page.get_by_text("Asked W2 (prover-1/1/0) to restart.")).to_be_visible()
    fleet.answer("no: it is only a story")


def test_a_viewer_has_no_buttons(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "vera")
    expect(page.locator(".worker .badge").first).to_be_visible()
    expect(page.locator(".worker-actions:visible")).to_have_count(0)


def test_a_worker_of_a_silent_prover_is_lost_and_cannot_be_asked(served: Site, fleet: Fleet, page: Page) -> None:
    silent = "UPDATE session SET lease_until = clock_timestamp() - interval '1 s' WHERE pid > 0"
    fleet.writer.connection.execute(silent)
    login(page, served, "olga")
    choose(page, served, "W0", "pause")
    expect(page.get_by_text("not online, so nobody would execute it")).to_be_visible()
    expect(page.get_by_role("row", name="W0")).to_contain_text("lost")
