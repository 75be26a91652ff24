"""A whole deadline, watched from its submission to its proof: the page, the event log and the truth are one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.store import KeyStore
from prover.groth16.verifier import PreparedKey
from tests.browser import Site, login, screenshot

from . import observing
from .running import DATA, DEADLINE, PATIENCE_MS, Shared, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]
#: a canvas two frames from now
PAINTED = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.querySelector("#waterfall canvas").toDataURL()))))"""
Meanwhile = Callable[[Page, str], None]
WORKERS = ["alpha/0/0", "alpha/0/1", "alpha/1/0", "alpha/1/1"]


def pictures(page: Page, job: str) -> None:
    """The page in the middle of a run: wide and on a phone, light and dark."""
    progress = page.locator(f".card[data-job='{job}'] .progress")
    expect(progress).to_have_text(re.compile("^([5-9]|1.) /"), timeout=PATIENCE_MS)
    for name, width in (("wide", 1440), ("phone", 360)):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 2400})  # charts out of sight are not drawn
            whole = page.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)")
            page.set_viewport_size({"width": width, "height": whole})
            screenshot(page, f"live-{name}-{scheme}")
    page.set_viewport_size({"width": 1440, "height": 900})


def watch(page: Page, site: Site, shared: Shared, request: Path, meanwhile: Meanwhile = lambda page, job: None) -> str:
    """Submit a request and watch the live page until its job is done; the job's id."""
    login(page, site)
    page.wait_for_selector(".card.worker[data-state=idle]", timeout=PATIENCE_MS)
    observing.observe(page)
    job = submit(shared, site.database, request)
    meanwhile(page, job)
    badge = f".card[data-job='{job}'] .job-head .badge"
    page.wait_for_selector(f"{badge}[data-state=done], {badge}[data-state=failed]", timeout=2 * PATIENCE_MS)
    assert page.inner_text(badge) == "done"
    return job


MODES = {"synchronous": "pipeline.split=false", "monolithic": "pipeline.enabled=false"}


def assert_deadline_is_proved(page: Page, site: Site, shared: Shared, folder: Path, *settings: str) -> None:
    """The published deadline by fresh keys: watched throughout, and verified by its published inputs."""
    with proving(site.database, shared, folder, *settings) as prover:
        job = watch(page, site, shared, DEADLINE, pictures)
        screenshot(page, "deadline-done")
        proof = delivered(site.database, job)
        assert prover.stop() == 0, prover.log
    observing.assert_page_is_right(page, site.database)
    observing.assert_log_is_true(site.database, prover.truth(), attempts=13)
    published = json.loads((DATA / "deadline/deadline.json").read_text())["partitions"]
    assert len(proof) == 13 * 192 == 192 * len(published)
    key = PreparedKey(KeyStore(shared.keys).verifying_key(post_shape(ProofKind.WINDOW_POST, 2048).key_name))
    for number, partition in enumerate(published):
        inputs = [int(value, 16) for value in partition["public_inputs"]]
        assert key.verify(inputs, proof[192 * number : 192 * (number + 1)]), f"P{number}"
    page.goto(f"{site.url}jobs/{job}/")
    expect(page.locator("#waterfall .tl-names > div")).to_have_text([f"P{number}" for number in range(13)])
    pictures_of_it = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        pictures_of_it.append(page.evaluate(PAINTED))
        screenshot(page, f"job-wide-{scheme}")
    assert pictures_of_it[0] != pictures_of_it[1], "the waterfall follows the system's colours"


def test_the_deadline_is_proved_and_the_page_tells_the_truth(
    page: Page, served: Site, window: Shared, tmp_path: Path
) -> None:
    assert_deadline_is_proved(page, served, window, tmp_path / "prover")
    page.goto(served.url)
    cards = page.locator(".card.worker")
    assert cards.locator(".name").all_inner_texts() == ["W0", "W1", "W2", "W3"]
    assert [card.get_attribute("data-worker") for card in cards.all()] == WORKERS


@pytest.mark.acceptance
@pytest.mark.parametrize("mode", MODES)
def test_the_deadline_by_the_other_paths(page: Page, served: Site, window: Shared, tmp_path: Path, mode: str) -> None:
    assert_deadline_is_proved(page, served, window, tmp_path / "prover", MODES[mode])


@pytest.fixture(scope="module")
def short(window: Shared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A request over seven fresh sectors: four partitions, the last one short."""
    return window.sample("window-post", tmp_path_factory.mktemp("short"), "--sectors", 7)


@pytest.mark.parametrize("mode", MODES)
def test_the_other_paths_tell_the_truth_too(
    page: Page, served: Site, window: Shared, short: Path, tmp_path: Path, mode: str
) -> None:
    with proving(served.database, window, tmp_path / "prover", MODES[mode]) as prover:
        job = watch(page, served, window, short)
        assert len(page.query_selector_all(".card.worker")) == (2 if mode == "monolithic" else 4)
        proof = delivered(served.database, job)
        assert prover.stop() == 0, prover.log
    observing.assert_page_is_right(page, served.database)
    observing.assert_log_is_true(served.database, prover.truth(), attempts=4)
    assert refused(window, short, proof) == []
