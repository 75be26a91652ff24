"""A job is cancelled from its page while one of its proofs is on the device: it ends, and its worker goes on.

One worker and real proofs; only the moment of the cancel is chosen, by a gate (observed.py).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from prover.states import Entity, Transition
from tests.browser import Site, login, screenshot, watched

from . import observing
from .running import PATIENCE_MS, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]
ONE_WORKER = ("gpus.cpu_devices=1", "gpus.gpu_workers_per_device=1")


def test_a_proof_that_runs_is_cancelled_and_the_next_job_proved(
    page: Page, served: Site, window: Shared, tmp_path: Path
) -> None:
    request = window.sample("window-post", tmp_path, "--sectors", 9)
    (tmp_path / "next").mkdir()
    other = window.sample("window-post", tmp_path / "next")
    gate = "start-P1"
    with proving(served.database, window, tmp_path, *ONE_WORKER, gates=(gate,)) as prover:
        login(page, served)
        card = page.locator(".card.worker")
        expect(card).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)
        observing.observe(page)
        job = submit(window, served.database, request)
        await_true(lambda: prover.reached(gate))
        following = submit(window, served.database, other)
        with watched(page.context) as opened:
            opened.goto(f"{served.url}jobs/{job}/")
            cancel(opened)
            expect(opened).to_have_url(f"{served.url}jobs/{job}/")
            state = opened.locator("#job-state")
            expect(state).to_have_text("cancelled", timeout=PATIENCE_MS)
            # what is on the device runs out: both pages go on showing it
            running = opened.locator("[aria-labelledby=attempts] tbody tr", has_text="P1").locator(".badge")
            expect(running).to_have_text("device")
            shown = page.locator(f"[data-job='{job}']")
            expect(shown.locator(".job-head .badge")).to_have_text("cancelled", timeout=PATIENCE_MS)
            expect(shown.locator(".tl-notes > div").nth(1)).to_contain_text("gpu")
            expect(card.locator(".partition")).to_have_text("P1")
            screenshot(opened, "cancelling")
            prover.open(gate)
            expect(running).to_have_text(re.compile("cancelled|skipped|done"), timeout=PATIENCE_MS)
            expect(opened.get_by_role("link", name="Cancel…")).to_have_count(0)
            expect(opened.get_by_role("link", name="Download proof")).to_have_count(0)
            screenshot(opened, "cancelled")
            ended = page.locator(f"[data-job='{job}'] .job-head .badge, #recent tr:has(a[href='/jobs/{job}/']) .badge")
            expect(ended.first).to_have_text("cancelled", timeout=PATIENCE_MS)
            done = page.locator(f"[data-job='{following}'] .job-head .badge")
            expect(done).to_have_text("done", timeout=PATIENCE_MS)
            expect(card).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)
            assert_history(opened, served, {job: "cancelled", following: "done"})
        assert prover.stop() == 0, prover.log
    log = observing.event_log(served.database)
    assert_cancelled(log, job)
    observing.assert_page_is_right(page, served.database)
    with served.database.connect() as connection:
        assert connection.execute("SELECT job_id::text FROM delivery").fetchall() == [(following,)]
    assert refused(window, other, delivered(served.database, following)) == []


def cancel(page: Page) -> None:
    """By the button of the job's page, and that of the page that asks once more."""
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_role("button", name=re.compile(r"^Cancel job \d+$")).click()


def assert_history(page: Page, site: Site, states: dict[str, str]) -> None:
    page.goto(f"{site.url}jobs/")
    for job, state in states.items():
        row = page.locator("tbody tr", has=page.locator(f"a[href='/jobs/{job}/']"))
        expect(row.locator("[data-name=State]")).to_have_text(state)


def assert_cancelled(log: list[Transition], job: str) -> None:
    """The wish was taken and done, the job ended once, and none of its partitions was claimed after the wish."""
    commands = [t for t in log if t.entity is Entity.COMMAND]
    assert [t.new for t in commands] == ["pending", "taken", "done"]
    assert {t.detail.get("action") for t in commands[:1]} == {"cancel"}
    moves = [t.new for t in log if t.entity is Entity.JOB and t.entity_id == job]
    assert moves[-1] == "cancelled" and moves.count("cancelled") == 1
    attempts = [t for t in log if t.entity is Entity.ATTEMPT and t.job == job]
    last = {t.partition: t.new for t in attempts}
    assert last.pop(0) == "done"  # proved before anybody wished otherwise, and dropped
    assert set(last.values()) <= {"cancelled", "skipped", "done"} and last.keys() == {1, 2, 3, 4}
    assert {last[2], last[3], last[4]} == {"cancelled"}
    wished = next(t.at_us for t in commands if t.new == "taken")
    assert not [t for t in attempts if t.new == "claimed" and t.at_us > wished]
