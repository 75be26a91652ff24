"""What is wrong stands in the head of each page, reaches a channel, and goes when it is over; and the audit's alarm."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from prover.stack.roles import OWNER, SITE
from prover.states import Entity
from tests.alerts.daemon import Original, idle, original, pipeline, proving, status
from tests.alerts.receiver import Receiver, receiving
from tests.browser import Site, login, screenshot
from tests.postgres import ROOT

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

WORKER = "prover-1/0/1"


@pytest.fixture(scope="module", autouse=True)
def settings_of_the_site() -> Iterator[None]:
    """Of the process that `served` starts."""
    mine = {"CUZK_ALERT_NETWORKS": "127.0.0.0/8", "CUZK_AUDIT_SECONDS": "1"}
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def receiver(served: Site) -> Iterator[Receiver]:
    with receiving() as made, served.database.connect(OWNER) as owner:
        owner.execute("UPDATE alert_rule SET settle_s = 1 WHERE condition = 'quarantined_worker'")
        owner.execute("UPDATE alert_rule SET enabled = condition IN ('quarantined_worker', 'anomaly')")
        owner.execute("DELETE FROM alert_notification")
        owner.execute("DELETE FROM alert_channel")
        owner.execute(
            "INSERT INTO alert_channel (name, format, url, token, enabled, recoveries) VALUES"
            " ('ops chat', 'webhook', %s, '', true, true)",
            [made.url],
        )
        yield made


def looks(page: Page, name: str) -> None:
    """Pictures, wide and as on a phone, light and dark, if somebody wants them."""
    if not os.environ.get("CUZK_SCREENSHOTS"):
        return
    for width, height in ((1440, 900), (390, 844)):
        for theme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            screenshot(page, f"{name}-{width}-{theme}")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_from_the_fault_to_the_page_and_the_channel_and_back(
    served: Site, fleet: Fleet, page: Page, receiver: Receiver
) -> None:
    login(page, served, "ada")
    expect(page.locator("#alert-mark")).to_be_hidden()
    fleet.story.move(Entity.ADMIN, WORKER, "quarantined", worker=WORKER, detail={"by": "cuzk"})
    fleet.flush()
    mark = page.locator("#alert-mark")
    expect(mark).to_have_text("1 alert: W1 (prover-1/0/1) is in quarantine", timeout=8000)
    expect(page.locator("#open-alerts")).to_have_text("1")
    looks(page, "live-alert")
    mark.click()
    alert = page.locator(".alert")
    expect(alert).to_contain_text("W1 (prover-1/0/1) is in quarantine")
    until = time.monotonic() + 5
    while not receiver.received and time.monotonic() < until:
        page.wait_for_timeout(50)
    page.wait_for_timeout(100)  # until it is recorded
    page.reload()
    expect(alert).to_contain_text("ops chat: firing delivered")
    looks(page, "alerts")
    assert [got.body["event"] for got in receiver.received] == ["firing"]
    fleet.story.move(Entity.ADMIN, WORKER, "enabled", worker=WORKER, detail={"by": "olga"})
    fleet.flush()
    page.goto(served.url)
    expect(mark).to_be_hidden(timeout=12_000)
    expect(page.locator("#open-alerts")).to_be_hidden()
    page.goto(f"{served.url}alerts/")
    expect(page.locator(".alert")).to_contain_text("it is no longer so")


def test_a_page_that_differs_from_the_database_says_so(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "vera")
    expect(page.locator("#live[data-audited]:not([data-audited='0'])")).to_be_attached(timeout=10_000)
    expect(page.locator("#audit-alarm")).to_be_hidden()
    with served.database.connect(OWNER) as owner:
        owner.execute("UPDATE worker SET state = 'stopped' WHERE id = %s", [WORKER])
        alarm = page.locator("#audit-alarm")
        expect(alarm).to_be_visible(timeout=15_000)
        expect(alarm).to_contain_text(f"worker {WORKER}")
        expect(page.locator("#alert-mark")).to_contain_text("audit_", timeout=8000)
        looks(page, "live-audit")
        owner.execute("UPDATE worker SET state = 'online' WHERE id = %s", [WORKER])


def test_the_administration_of_channels(served: Site, page: Page, receiver: Receiver) -> None:
    login(page, served, "ada")
    for place in ("rule/", "rule/add/", "channel/"):
        page.goto(f"{served.url}admin/alerts/{place}")
        looks(page, f"admin-alerts-{place.strip('/').replace('/', '-')}")
    page.get_by_role("link", name="ops chat").first.click()
    page.get_by_role("button", name="Send a test message").click()
    expect(page.get_by_text("the test message was delivered")).to_be_visible()
    looks(page, "admin-alerts-channel-tested")
    assert receiver.received[-1].body["event"] == "test"
    assert "hook" not in page.content().replace("webhook", "")


@contextmanager
def watching(served: Site, daemon: Original) -> Iterator[None]:
    """The bridge, as people run it."""
    env = os.environ | {"DATABASE_URL": served.database.url(SITE), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "manage.py", "watch_cuzk", daemon.url, "--name", "rust-1", "--every", "0.1"]
    with subprocess.Popen(command, cwd=ROOT, env=env) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_watched_daemon_whose_workers_read_idle_is_shown_at_work(served: Site, fleet: Fleet, page: Page) -> None:
    job, other = "ps-snap-1000-123456", "porep-1000-7"
    with served.database.connect(OWNER) as owner, original() as daemon:
        owner.execute("UPDATE alert_rule SET enabled = condition = 'anomaly'")
        busy = [proving(0, job, 2), proving(1, job, 3), idle(2, 1)]
        done = pipeline(other, "dddd", 60)
        daemon.answer = status(100, [pipeline(job, "ddggrsp", 9, "snap-update"), done], busy)
        with watching(served, daemon):
            login(page, served, "olga")
            card = page.locator('[data-worker="rust-1/0/0"]')
            expect(card).to_have_attribute("data-state", "proving", timeout=15_000)
            phantom = [idle(0), idle(1), idle(2, 1)]
            daemon.answer = status(101, [pipeline(job, "ddggrsp", 10, "snap-update")], phantom)
            expect(page.locator("#alert-mark")).to_contain_text("phantom_idle", timeout=10_000)
            for worker in ("rust-1/0/0", "rust-1/0/1"):
                expect(page.locator(f'[data-worker="{worker}"]')).to_have_attribute("data-state", "proving")
                expect(page.locator(f'[data-worker="{worker}"]')).to_contain_text("on the GPU")
            expect(page.locator('[data-worker="rust-1/-1/0"]')).to_contain_text("GPU unknown")
            expect(page.get_by_label("Prover rust-1")).to_contain_text("watched")
            expect(page.locator('[data-worker="rust-1/1/2"]')).to_have_attribute("data-state", "idle")
            expect(page.locator("#recent")).to_contain_text(f"rust-1/{other}")
            expect(page.locator(".job").first).to_contain_text("31.2s+587ms")  # what the daemon says
            looks(page, "live-watched")
            page.goto(f"{served.url}jobs/")
            looks(page, "jobs-watched")
            page.get_by_role("link", name=f"rust-1/{job}").first.click()
            expect(page.locator("main")).to_contain_text(f"rust-1/{job}")
            looks(page, "job-watched")
        page.goto(f"{served.url}alerts/?condition=anomaly")
        expect(page.locator(".alert").first).to_contain_text("is on the GPU")
        looks(page, "alerts-watched")
