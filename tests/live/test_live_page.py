"""The live page in a real browser: it follows the log, says when it does not, and never cuts or trusts a label."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from prover.stack.roles import OWNER
from tests.browser import Site, login, screenshot, serving, watched
from tests.postgres import Database

from .story import Story
from .writer import Writer

pytestmark = [pytest.mark.browser, pytest.mark.postgres]
LOST_CONNECTION = r"WebSocket connection to|net::ERR_|Failed to load resource"


@pytest.fixture
def fleet(database: Database) -> Iterator[Fleet]:
    with database.connect(OWNER) as connection:
        yield Fleet(Writer(connection))


class Fleet:
    """A prover whose transitions go to the database as time passes."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.story = Story(now_us=time.time_ns() // 1000 - 60_000_000)
        self.story.start()
        self.catch_up()

    def catch_up(self) -> None:
        """The story up to now, with a heartbeat."""
        self.story.run(max(0.0, time.time() - self.story.now_us / 1e6))
        self.flush()

    def flush(self) -> None:
        """What was told so far, whatever the time is."""
        if self.story.told:
            self.writer.write(self.story.take())
        self.writer.beat(self.story.session, {"rss_bytes": 2**30, "memory_total_bytes": 5 * 2**29})


def wait_for_seq(page: Page, fleet: Fleet, seconds: float = 10) -> None:
    """Until the page has folded, and drawn, all that was written."""
    heads = json.dumps(fleet.writer.state.heads)
    page.wait_for_function(
        """(heads) => {
            const seen = JSON.parse(document.getElementById("live").dataset.seq ?? "{}");
            return Object.entries(heads).every(([session, seq]) => (seen[session] ?? 0) >= seq);
        }""",
        arg=json.loads(heads),
        timeout=1000 * seconds,
    )


def card(page: Page, worker: str) -> Any:
    return page.locator(f'[data-worker="{worker}"]')


def test_a_person_logs_in_and_sees_the_fleet_move(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served, "vera")
    expect(page.locator("#data-age")).to_have_text("live")
    expect(page.locator(".worker .name")).to_have_text(["W0", "W1", "W2", "W3"])
    expect(page.locator(".worker .gpu")).to_have_text(["GPU 0", "GPU 0", "GPU 1", "GPU 1"])
    expect(page.locator(".worker .badge")).to_have_text(["idle"] * 4)
    expect(page.locator(".prover .tag:visible")).to_have_text("local keys: not for the chain")
    expect(page.locator(".prover-memory b")).to_have_text("1.0 GiB of 2.5 GiB (40%)")
    fleet.story.now_us = time.time_ns() // 1000 - 3_000_000
    fleet.story.submit("window-post", "deadline-5", partitions=13, priority=3)
    fleet.catch_up()
    wait_for_seq(page, fleet)
    expect(page.locator(".job .label")).to_have_text("deadline-5")
    expect(page.locator(".job .kind")).to_have_text("WindowPoSt")
    assert_truth(page, fleet)
    expect(page).to_have_title(re.compile(r"^\d proving – cuzk$"))
    assert page.get_attribute("#favicon", "href") == "/static/img/mark-busy.svg"
    screenshot(page, "live-1440")


def assert_truth(page: Page, fleet: Fleet) -> None:
    """Cards and waterfall say what the log says, at the page's seq."""
    state = fleet.writer.state
    shown = page.evaluate(
        """() => {
            const text = (card, name) => card.querySelector(name).textContent;
            const hidden = (card, name) => card.querySelector(name).hidden;
            return [...document.querySelectorAll(".worker")].map((card) => ({
                id: card.dataset.worker, badge: text(card, ".badge"),
                partition: hidden(card, ".worker-line") ? null : text(card, ".partition"),
                tail: hidden(card, ".worker-tail") ? null : text(card, ".worker-tail")}));
        }"""
    )
    for worker in shown:
        front, tails = state.front(worker["id"]), state.finalizing(worker["id"])
        assert worker["badge"] == state.activity(worker["id"])
        assert (worker["partition"] is None) == (front is None)
        if front is not None:
            assert worker["partition"].split()[0] == f"P{front.split(':')[1]}"
        assert (worker["tail"] is None) == (not tails)
        if tails:
            assert worker["tail"].startswith(f"finalizing: P{tails[0].split(':')[1]}")


def test_cards_never_read_idle_while_a_late_finalizer_ends(served: Site, fleet: Fleet, page: Page) -> None:
    """The phantom idle: P0 was handed off, its worker proves P1, and only then the tail of P0 ends."""
    login(page, served)
    story, worker = fleet.story, "prover-1/0/0"
    story.now_us = time.time_ns() // 1000
    job = story.submit("window-post", "phantom", partitions=2)
    for state in ("loading", "running"):
        story.move_job(job, state)
    for partition in (0, 1):
        for state in ("pending", "reserved", "synthesizing", "ready"):
            story.move_attempt(job, partition, state)
    for state in ("claimed", "device_wait", "device", "finalizing"):
        story.move_attempt(job, 0, state, worker)
    for state in ("claimed", "device_wait", "device"):
        story.move_attempt(job, 1, state, worker)
    fleet.flush()
    wait_for_seq(page, fleet)
    mine = card(page, worker)
    expect(mine.locator(".badge")).to_have_text("proving")
    expect(mine.locator(".worker-tail")).to_have_text(re.compile(r"^finalizing: P0 \d"))
    page.evaluate(
        """(worker) => {
            window.seen = [];
            const badge = document.querySelector(`[data-worker="${worker}"] .badge`);
            new MutationObserver(() => window.seen.push(badge.textContent)).observe(
                badge, {characterData: true, childList: true, subtree: true});
        }""",
        worker,
    )
    story.move_attempt(job, 0, "done", worker)
    fleet.flush()
    wait_for_seq(page, fleet)
    expect(mine.locator(".worker-tail")).to_be_hidden()
    expect(mine.locator(".badge")).to_have_text("proving")
    expect(mine.locator(".partition")).to_have_text("P1")
    assert page.evaluate("window.seen") == []


def test_a_prover_that_goes_silent_goes_grey_and_its_timers_stop(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served)
    fleet.story.now_us = time.time_ns() // 1000 - 2_500_000
    fleet.story.submit("winning-post", "epoch-1")
    fleet.catch_up()
    wait_for_seq(page, fleet)
    busy = card(page, page.locator('.worker[data-state="proving"]').get_attribute("data-worker") or "")
    expect(busy).to_have_attribute("data-fresh", "yes")
    expect(busy).to_have_attribute("data-fresh", "no", timeout=16_000)  # silent, or already marked lost
    first = busy.locator(".timer").text_content()
    time.sleep(0.6)
    assert busy.locator(".timer").text_content() == first
    expect(page.locator(".prover .badge").first).to_have_text(
        re.compile(r"^(no heartbeat for 00:\d\d|daemon lost .*)$")
    )


def test_a_web_server_that_goes_away_is_said_and_the_page_comes_back(
    database: Database, people: None, fleet: Fleet, context: BrowserContext
) -> None:
    with watched(context, LOST_CONNECTION) as page:
        with serving(database) as first:
            login(page, first)
            expect(page.locator("#data-age")).to_have_text("live")
            port = first.port
        expect(page.locator("#live")).not_to_have_attribute("data-connection", "open")
        expect(page.locator("#trouble")).to_be_visible()
        fleet.story.submit("window-post", "while-away", partitions=3)
        fleet.catch_up()
        with serving(database, port, secret=first.secret):
            wait_for_seq(page, fleet, 45)  # it tries again after at most half a minute
            expect(page.locator("#data-age")).to_have_text("live")
            expect(page.get_by_text("while-away").first).to_be_visible()


HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def test_labels_are_text_whole_and_different_at_320_pixels(served: Site, fleet: Fleet, browser: Browser) -> None:
    names = ["ps-snap-1000-123456", "ps-snap-1000-123457", HOSTILE, "🦊" * 30 + "\u202e" + "x" * 10_000]
    for name in names:
        fleet.story.submit("snap-update", name, partitions=2)
    fleet.story.run(0.1)
    fleet.flush()
    narrow = browser.new_context(viewport={"width": 320, "height": 640})
    with watched(narrow) as page:
        login(page, served)
        wait_for_seq(page, fleet)
        expect(page.locator(".job")).to_have_count(4)
        labels = page.locator(".job .label")
        assert sorted(labels.nth(i).get_attribute("title") or "" for i in range(4)) == sorted(names)
        shown = labels.all_inner_texts()
        assert {"ps-snap-1000-123456", "ps-snap-1000-123457", HOSTILE} < set(shown) and len(set(shown)) == 4
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img, main script:not([type])").count() == 0
        # nothing is cut: no text is wider than its box, the page is no wider than the screen
        cut = page.evaluate(
            """() => {
                const clips = (node) => getComputedStyle(node).overflowX !== "visible" && node.clientWidth > 0;
                const nodes = [...document.querySelectorAll("main *:not(.sr):not(.sr *):not(canvas)")];
                return nodes.filter((node) => node.scrollWidth > node.clientWidth + 1 && clips(node))
                    .map((node) => node.className);
            }"""
        )
        assert cut in ([], ["table-wrap"])
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        screenshot(page, "live-320")
    narrow.close()


def test_the_waterfall_tells_its_bars_to_the_keyboard_and_as_a_table(served: Site, fleet: Fleet, page: Page) -> None:
    fleet.story.fail = lambda request, partition, attempt: partition == 1 and attempt == 1
    fleet.story.submit("window-post", "deadline-9", partitions=4)
    fleet.story.run(12)
    fleet.flush()
    login(page, served)
    wait_for_seq(page, fleet)
    names = page.locator(".job .tl-names > div")
    expect(names).to_have_text(["P0", "P1", "P1 ×2", "P2", "P3"])
    expect(page.locator(".job .tl-notes > div").nth(1)).to_have_text("FAIL")
    rows = page.locator(".job .sr tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("failed (device_memory)")
    page.locator(".job canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    tip = page.locator(".job .tl-tip")
    expect(tip).to_be_visible()
    expect(tip).to_contain_text(re.compile(r"P1.*\d(ms|s)"))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_a_waterfall_below_the_screen_has_its_size_and_is_painted(served: Site, fleet: Fleet, page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 200})
    fleet.story.submit("window-post", "deadline-9", partitions=4)
    fleet.story.run(12)
    fleet.flush()
    login(page, served)
    wait_for_seq(page, fleet)
    plot = page.locator(".job canvas")
    expect(plot).to_have_css("height", "100px")  # the axis and four rows of 20
    top = page.evaluate("document.querySelector('.job canvas').getBoundingClientRect().top")
    assert top > 200 + 200  # beyond what is said to be nearly on the screen
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector(".job canvas");
            const pixels = canvas.getContext("2d").getImageData(0, 30, canvas.width, 60).data;
            return new Set(new Uint32Array(pixels.buffer)).size > 3;
        }"""
    )


def test_the_switches_for_colours_and_time_zone_hold(served: Site, fleet: Fleet, page: Page) -> None:
    login(page, served)
    background = "getComputedStyle(document.body).backgroundColor"
    for scheme, colour in (("dark", "rgb(11, 15, 21)"), ("light", "rgb(244, 246, 249)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate(background) == colour
    page.click("#theme")
    page.click("#theme")
    assert page.evaluate(background) == "rgb(11, 15, 21)", "dark by the switch, whatever the system says"
    page.click("#zone")
    expect(page.locator("#server-zone")).to_have_text(re.compile(r"^local \(UTC[+−]\d\d:\d\d\)$"))
    page.reload()
    assert page.evaluate(background) == "rgb(11, 15, 21)"
    expect(page.locator("#server-zone")).to_have_text(re.compile("^local"))


def test_those_who_may_not_look_see_nothing(served: Site, fleet: Fleet, context: BrowserContext) -> None:
    with watched(context, r"403|401|Failed to load resource") as page:
        page.goto(served.url)
        assert "/login" in page.url
        assert page.request.get(f"{served.url}live/snapshot", max_redirects=0).status == 302
        login(page, served, "sam")
        assert page.locator("#live").count() == 0
        assert page.request.get(f"{served.url}live/snapshot").status == 403
