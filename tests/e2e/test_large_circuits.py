"""SnapDeals and PoRep of fresh sectors, from the queue to a verified proof, watched on the page; keys on first use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from prover.filecoin.shapes import ProofKind, circuit_shape
from tests.browser import Site, login, screenshot

from . import observing
from .running import PATIENCE_MS, Shared, delivered, proving, refused, submit

LONG_MS = 3_000_000.0  # for keys and a proof of millions of constraints
pytestmark = [
    pytest.mark.acceptance, pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(2 * LONG_MS / 1000),
]  # fmt: skip
NAMES = {ProofKind.SNAP: "SnapDeals", ProofKind.POREP: "PoRep C2"}


def watch_the_making_of_keys(page: Page, kind: ProofKind) -> None:
    """The phase has a line of its own, with its progress, and ends ready."""
    line = page.locator(".holding", has_text=f"{kind} 2KiB, local keys")
    expect(line).to_contain_text(re.compile(r"\d+%"), timeout=LONG_MS)
    expect(line).to_contain_text("local keys made", timeout=LONG_MS)


@pytest.mark.parametrize("kind", NAMES)
def test_a_fresh_sector_is_proved_and_the_page_tells_the_truth(
    page: Page, served: Site, shared: Shared, tmp_path: Path, kind: ProofKind
) -> None:
    request = shared.sample(kind, tmp_path)
    made_before = (shared.keys / f"{circuit_shape(kind, 2048).key_name}.params").exists()
    with proving(served.database, shared, tmp_path / "prover", "srs.make_missing=true") as prover:
        login(page, served)
        page.wait_for_selector(".card.worker[data-state=idle]", timeout=PATIENCE_MS)
        observing.observe(page)
        job = submit(shared, served.database, request)
        if not made_before:
            watch_the_making_of_keys(page, kind)
        badge = page.locator(f".card[data-job='{job}'] .job-head .badge")
        expect(badge).to_have_text(re.compile("done|failed"), timeout=LONG_MS)
        expect(badge).to_have_text("done")
        proof = delivered(served.database, job)
        assert prover.stop() == 0, prover.log
    observing.assert_page_is_right(page, served.database)
    observing.assert_log_is_true(served.database, prover.truth(), attempts=1)
    assert len(proof) == 192
    assert refused(shared, request, proof) == []
    page.goto(f"{served.url}jobs/{job}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text(NAMES[kind])
    expect(page.locator("#waterfall .tl-names > div")).to_have_text(["P0"])
    screenshot(page, f"job-{kind}")
