"""The replay shows the cards that the live page showed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from prover.states import Entity, worker_id
from tests.browser import Site, login, screenshot

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

#: what the cards say, but for what runs with time
CARDS = """() => {
  const words = (node, names) => names.map((name) => [...node.querySelectorAll(name)]
    .filter((part) => !part.closest('[hidden]')).map((part) => part.textContent));
  const worker = ['.name', '.gpu', '.badge', '.kind', '.partition', '.phase', '.label', '.nothing', '.last > span',
    '.tag'];
  const job = ['.number', '.badge', '.kind', '.label', '.progress', '.notice', '.tl-names > div'];
  return [
    ...[...document.querySelectorAll('.worker')].map((node) => (
      [node.dataset.worker, node.dataset.state, words(node, worker)])),
    ...[...document.querySelectorAll('.job')].map((node) => [node.dataset.job, words(node, job)]),
    ...[...document.querySelectorAll('#recent tr')].map((node) => node.textContent),
    ...[...document.querySelectorAll('.counter')].map((node) => node.textContent)
      .filter((text) => !text.startsWith('Anomalies')),  // counted once a second, not by the fold
  ];
}"""
SEEN = """(seq) => JSON.parse(document.getElementById('live').dataset.seq ?? '{}')[seq[0]] >= seq[1]"""


def cards(page: Page) -> Any:
    return page.evaluate(CARDS)


def iso(us: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}"


@pytest.fixture
def recorded(served: Site, fleet: Fleet, page: Page) -> list[tuple[int, Any]]:
    """(moment, cards) of a live page that follows a run with failures and a worker that is paused."""
    story = fleet.story
    story.fail = lambda request, partition, no: request == "snap-b" and partition == 1 and no == 1
    login(page, served)
    expect(page.locator("#data-age")).to_have_text("live")
    seen = []
    for n in range(10):
        story.run(0.001)  # what comes now is later than the moment before
        if n == 0:
            story.submit("window-post", "deadline-a", partitions=6)
        if n == 3:
            story.submit("snap-update", "snap-b", partitions=3)
            paused = worker_id(story.prover, 0, 1)
            story.move(Entity.ADMIN, paused, "paused", worker=paused, detail={"by": "olga"})
        if n == 6:
            story.submit("winning-post", "block-c", partitions=1, priority=4)
        fleet.run(0.8)
        page.wait_for_function(SEEN, arg=[story.session, story._seqs[story.session]])
        page.wait_for_timeout(60)
        seen.append((story.now_us, cards(page)))
    return seen


def test_a_recorded_run_shows_the_same_cards(served: Site, recorded: list[tuple[int, Any]], page: Page) -> None:
    for us, expected in recorded:
        page.goto(f"{served.url}replay/?at={iso(us)}")
        expect(page.locator("#data-age")).to_have_text("replay")
        assert cards(page) == expected, iso(us)
    assert len({str(expected) for _, expected in recorded}) > 7
    assert "daemon lost" not in str(recorded)
    page.goto(f"{served.url}replay/?at={iso(recorded[5][0])}")
    for name, width in (("wide", 1440), ("phone", 390)):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.wait_for_timeout(200)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            screenshot(page, f"replay-{name}-{scheme}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})
    # the slider, by keyboard; and the steps
    expect(page.get_by_text("gauges and signs of life: not recorded")).to_be_visible()
    assert page.locator(".worker button:visible").count() == 0
    first = recorded[5][0]
    page.get_by_role("region", name="Replay").get_by_role("button", name="5 min", exact=True).click()
    page.get_by_label("Moment that is shown").focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"at=20"))
    page.get_by_role("button", name="Back 1 second").click()
    page.goto(f"{served.url}replay/?at={iso(first)}")
    # playing folds the rows between in the browser
    page.get_by_role("button", name="10×").click()
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "(us) => Date.parse(document.getElementById('replay-moment').textContent.replace(' ', 'T') + 'Z') >= us / 1000",
        arg=recorded[8][0],
    )
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page).to_have_url(re.compile(r"at=20"))
    played = cards(page)
    page.goto(page.url)
    expect(page.locator("#data-age")).to_have_text("replay")
    assert cards(page) == played
