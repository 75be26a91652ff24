"""A day at one prover: a request by the form, its history and proof; wishes of the admin; bad requests; a web restart.

The tests share one site and one prover, and each leaves them as it found them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from prover.filecoin import request as requests
from prover.filecoin.post import read_sectors
from prover.filecoin.vanilla import SectorProof, write_sector_proof
from prover.states import Entity, Transition
from tests.browser import Site, login, make_people, screenshot, serving, watched
from tests.postgres import Database, cloned

from . import observing
from .running import PATIENCE_MS, WINDOW, Prover, Shared, await_true, delivered, proving, refused, submit

pytestmark = [pytest.mark.browser, pytest.mark.postgres, pytest.mark.timeout(900)]
LOST_CONNECTION = r"WebSocket connection to|net::ERR_|Failed to load resource"


@dataclass
class Fleet:
    """A site, its prover, and the keys of both circuits."""

    site: Site
    prover: Prover
    shared: Shared

    @property
    def database(self) -> Database:
        return self.site.database


@pytest.fixture(scope="module")
def fleet(template: Database, window: Shared, winning: Shared, tmp_path_factory: Any) -> Iterator[Fleet]:
    with cloned(template) as database:
        make_people(database)
        with serving(database) as site, proving(database, winning, tmp_path_factory.mktemp("prover")) as prover:
            yield Fleet(site, prover, winning)


def state_of(database: Database, job: str) -> tuple[str, str | None, str | None]:
    with database.connect() as connection:
        (row,) = connection.execute("SELECT state, error_code, error_message FROM job WHERE id = %s", [job]).fetchall()
    return row


def await_end(database: Database, job: str) -> str:
    """How a job ended."""
    await_true(lambda: state_of(database, job)[0] in ("done", "failed", "cancelled"))
    return state_of(database, job)[0]


# -- a request, from the form to the proof ----------------------------------------------------------------------------


def test_a_request_from_the_form_to_the_proof(page: Page, fleet: Fleet, tmp_path: Path) -> None:
    request = fleet.shared.sample("winning-post", tmp_path)
    label = json.loads(request.read_text())["requestId"]
    login(page, fleet.site)
    page.goto(f"{fleet.site.url}submit/")
    page.set_input_files("input[name=request]", request)
    page.click("form[enctype] button[type=submit]")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/"))
    job = re.search(r"/jobs/([0-9a-f-]{36})/", page.url)[1]
    expect(page.locator("#job-state .badge")).to_have_text("done", timeout=2 * PATIENCE_MS)
    expect(page.locator("#waterfall .tl-names > div")).to_have_text(["P0"])
    expect(page.locator("#waterfall .sr td").first).to_contain_text(re.compile("synthesis .*device .*done"))
    expect(page.locator(".notice.warning")).to_contain_text("local keys: not for the chain", ignore_case=True)
    screenshot(page, "job-page")
    with page.expect_download() as download:
        page.click("text=Download proof")
    proof = Path(download.value.path()).read_bytes()
    assert proof == delivered(fleet.database, job)
    assert len(proof) == 192
    assert refused(fleet.shared, request, proof) == []
    page.goto(f"{fleet.site.url}jobs/?q={label}")
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("[data-name=State]")).to_have_text("done")
    expect(row.locator("[data-name=Kind]")).to_have_text("WinningPoSt")
    expect(row.locator("[data-name=Partitions]")).to_have_text("1/1")
    screenshot(page, "history")


def test_an_odd_number_of_sectors_from_the_command_line(fleet: Fleet, tmp_path: Path) -> None:
    request, out = fleet.shared.sample("window-post", tmp_path, "--sectors", 3), tmp_path / "proof"
    fleet.shared.cuzk("submit", request, "--out", out, database=fleet.database)
    assert len(out.read_bytes()) == 2 * 192
    assert refused(fleet.shared, request, out.read_bytes()) == []
    other = fleet.shared.sample("window-post", tmp_path, "--sectors", 3)
    assert refused(fleet.shared, other, out.read_bytes()) == [0, 1], "a proof proves its own randomness alone"


# -- wishes -----------------------------------------------------------------------------------------------------------

SAYS_WHEN = """([worker, wanted]) => {
    const card = document.querySelector(`[data-worker="${worker}"]`);
    window.shownAt = null;
    const look = () => { if (card.dataset.state === wanted) window.shownAt ??= Date.now(); };
    new MutationObserver(look).observe(card, {attributes: true});
    look();
}"""


def ask(admin: Page, site: Site, workers: list[str], action: str) -> None:
    """Choose workers in the administration, and an action."""
    admin.goto(f"{site.url}admin/fleet/worker/")
    for worker in workers:
        admin.check(f"input[name=_selected_action][value='{worker}']")
    admin.select_option("select[name=action]", action)
    admin.click("button[name=index]")
    if action == "drain":
        admin.click("input[value=Drain]")


def answered_at(database: Database, action: str, worker: str) -> datetime:
    """When the newest command of this kind was answered, which it must have been."""
    query = (
        "SELECT answered_at, state FROM command WHERE action = %s AND target = %s ORDER BY requested_at DESC LIMIT 1"
    )
    with database.connect() as connection:
        ((at, state),) = connection.execute(query, [action, worker]).fetchall()
    assert state == "done"
    return at


def test_pause_and_drain_in_the_administration(page: Page, fleet: Fleet, tmp_path: Path) -> None:
    """Three workers paused: the fourth does everything. It is drained at work: it ends that, and the rest waits."""
    request = fleet.shared.sample("window-post", tmp_path, "--sectors", 9)
    login(page, fleet.site, "ada")
    workers = ["alpha/0/0", "alpha/0/1", "alpha/1/0", "alpha/1/1"]
    expect(page.locator(".card.worker .badge")).to_have_text(["idle"] * 4, timeout=PATIENCE_MS)
    with watched(page.context) as admin:
        page.evaluate(SAYS_WHEN, [workers[1], "paused"])
        ask(admin, fleet.site, workers[1:], "pause")
        page.wait_for_selector(f"[data-worker='{workers[1]}'][data-state=paused]", timeout=PATIENCE_MS)
        shown = page.evaluate("window.shownAt") / 1000
        assert shown - answered_at(fleet.database, "pause", workers[1]).timestamp() < 1.0
        expect(page.locator(".card.worker .badge")).to_have_text(["idle", "paused", "paused", "paused"])
        job = submit(fleet.shared, fleet.database, request)
        card = page.locator(f"[data-worker='{workers[0]}']")
        expect(card).to_have_attribute("data-state", "proving", timeout=PATIENCE_MS)
        ask(admin, fleet.site, workers[:1], "drain")
        expect(card).to_have_attribute("data-state", "drained", timeout=PATIENCE_MS)
        screenshot(page, "drained")
        assert state_of(fleet.database, job)[0] == "running"
        ask(admin, fleet.site, workers, "resume")
    assert await_end(fleet.database, job) == "done"
    assert refused(fleet.shared, request, delivered(fleet.database, job)) == []
    assert_no_claims_against_wishes(observing.event_log(fleet.database))
    expect(page.locator(".card.worker .badge")).to_have_text(["idle"] * 4, timeout=PATIENCE_MS)


def test_pause_and_resume_by_the_buttons_of_a_card(page: Page, fleet: Fleet) -> None:
    login(page, fleet.site)
    worker = "alpha/1/1"
    card = page.locator(f"[data-worker='{worker}']")
    expect(card).to_have_attribute("data-state", "idle", timeout=PATIENCE_MS)
    for action, state in (("pause", "paused"), ("resume", "idle")):
        page.evaluate(SAYS_WHEN, [worker, state])
        card.get_by_role("button", name=action).click()
        expect(card).to_have_attribute("data-state", state, timeout=PATIENCE_MS)
        shown = page.evaluate("window.shownAt") / 1000
        assert shown - answered_at(fleet.database, action, worker).timestamp() < 1.0


def assert_no_claims_against_wishes(log: list[Transition]) -> None:
    """In the session's own order: between a worker's pause or drain and its resumption it claims nothing."""
    wishes: dict[str, str] = {}
    claims = 0
    for t in sorted((t for t in log if t.entity in (Entity.ADMIN, Entity.ATTEMPT)), key=lambda t: (t.session, t.seq)):
        if t.entity is Entity.ADMIN:
            wishes[t.entity_id] = t.new
        elif t.new == "claimed":
            claims += 1
            assert wishes.get(t.worker or "", "enabled") == "enabled", t
    assert claims and {"paused", "draining"} <= {t.new for t in log if t.entity is Entity.ADMIN}


# -- bad requests -----------------------------------------------------------------------------------------------------


def first_sector(change: Any) -> bytes:
    """The sample with its first vanilla proof changed by `change`."""
    content = json.loads(WINDOW.read_bytes())
    parsed = requests.parse_json(WINDOW.read_bytes())
    sector = change(read_sectors(parsed)[0])
    content["vanillaProofs"][0] = base64.b64encode(write_sector_proof(sector, parsed.shape.sector)).decode()
    return json.dumps(content).encode()


def other_path(sector: SectorProof) -> SectorProof:
    path = sector.inclusion_proofs[0]
    element = replace(path.path[0], siblings=(path.path[0].siblings[0] ^ 1, *path.path[0].siblings[1:]))
    changed = replace(path, path=(element, *path.path[1:]))
    return replace(sector, inclusion_proofs=(changed, *sector.inclusion_proofs[1:]))


def other_challenge(sector: SectorProof) -> SectorProof:
    first, second, *rest = sector.inclusion_proofs
    return replace(sector, inclusion_proofs=(second, first, *rest))


def altered(**fields: Any) -> bytes:
    return json.dumps(json.loads(WINDOW.read_bytes()) | fields).encode()


def shortened() -> bytes:
    proofs = json.loads(WINDOW.read_bytes())["vanillaProofs"]
    cut = base64.b64encode(base64.b64decode(proofs[0])[:-1]).decode()
    return altered(vanillaProofs=[cut, *proofs[1:]])


#: what the form refuses at once
REFUSED = {
    "no request": (lambda: b"hello", "invalid_request"),
    "another kind": (lambda: altered(proofKind=77), "unsupported_proof"),
    "no such size": (lambda: altered(sectorSize="3000"), "unsupported_sector_size"),
    "kind and proof disagree": (lambda: altered(registeredProof="0"), "registered_proof_mismatch"),
    "no vanilla proof": (lambda: altered(vanillaProofs=[]), "wrong_proof_count"),
    "a truncated proof": (shortened, "truncated_vanilla_proof"),
    "no field element": (lambda: altered(randomness=base64.b64encode(b"\xff" * 32).decode()), "non_canonical_element"),
    "a label of 10 kB": (lambda: altered(requestId="x" * 10_000), "invalid_label"),
}
#: what only the full check of the prover finds
FAILED = {
    "a path that leads elsewhere": (lambda: first_sector(other_path), "merkle_path_mismatch"),
    "another challenge": (lambda: first_sector(other_challenge), "wrong_challenge"),
    "another comm_r": (lambda: first_sector(lambda s: replace(s, comm_c=s.comm_c ^ 1)), "comm_r_mismatch"),
}


def upload(page: Page, site: Site, content: bytes, request_id: str = "") -> None:
    page.goto(f"{site.url}submit/")
    file = {"name": "request.json", "mimeType": "application/json", "buffer": content}
    page.set_input_files("input[name=request]", file)  # type: ignore[arg-type]
    page.fill("form[enctype] input[name=request_id]", request_id)
    page.click("form[enctype] button[type=submit]")
    page.wait_for_load_state()


def test_bad_requests_say_why_and_later_jobs_go_on(context: BrowserContext, fleet: Fleet, tmp_path: Path) -> None:
    with watched(context, "Failed to load resource") as page:
        login(page, fleet.site)
        for name, (make, code) in REFUSED.items():
            upload(page, fleet.site, make())
            expect(page.locator(".notice.error code").first, name).to_have_text(code)
        jobs = {}
        for name, (make, code) in FAILED.items():
            upload(page, fleet.site, make(), f"bad {name} <b>")
            jobs[re.search(r"/jobs/([0-9a-f-]{36})/", page.url)[1]] = code
        no_key = fleet.shared.sample("window-post", tmp_path, "--size", "4KiB")
        jobs[submit(fleet.shared, fleet.database, no_key)] = "key_not_found"
        for job, code in jobs.items():
            assert await_end(fleet.database, job) == "failed"
            page.goto(f"{fleet.site.url}jobs/{job}/")
            expect(page.locator(".notice.error code")).to_have_text(code)
            expect(page.locator("#job-state .badge")).to_have_text("failed")
        page.goto(fleet.site.url)
        for job in jobs:
            row = page.locator("#recent tr", has=page.locator(f"a[href='/jobs/{job}/']"))
            expect(row.locator(".badge")).to_have_text("failed")
        screenshot(page, "failed")
    good = fleet.shared.sample("window-post", tmp_path)
    job = submit(fleet.shared, fleet.database, good)
    assert await_end(fleet.database, job) == "done"
    assert refused(fleet.shared, good, delivered(fleet.database, job)) == []


# -- a web process that dies ------------------------------------------------------------------------------------------


def test_a_page_outlives_its_web_process(context: BrowserContext, fleet: Fleet, tmp_path: Path) -> None:
    """Killed while a job runs: the page says that it is stale, and comes back by itself, with everything in it."""
    request = fleet.shared.sample("window-post", tmp_path, "--sectors", 5)
    with watched(context, LOST_CONNECTION) as page:
        with serving(fleet.database) as first:
            login(page, first)
            page.evaluate("window.sameDocument = true")
            expect(page.locator("#data-age")).to_have_text("live")
            job = submit(fleet.shared, fleet.database, request)
            page.wait_for_selector(".card.worker[data-state=proving]", timeout=PATIENCE_MS)
            first.process.kill()
            first.process.wait()
            expect(page.locator("#live")).to_have_class(re.compile("stale"), timeout=15_000)
            expect(page.locator("#data-age")).to_contain_text("stale")
            expect(page.locator(".card.worker").first).to_have_attribute("data-fresh", "no")
            timers = page.locator(".card.worker .timer").all_inner_texts()
            age = page.inner_text("#data-age")
            expect(page.locator("#data-age")).not_to_have_text(age)  # time passes, and is shown to
            assert page.locator(".card.worker .timer").all_inner_texts() == timers
            expect(page.locator(".card.worker .age").first).to_have_text(re.compile(r"data (1[3-9]|[2-9]\d) s"))
            screenshot(page, "stale")
        assert await_end(fleet.database, job) == "done"
        with serving(fleet.database, first.port, secret=first.secret):
            badge = page.locator(f".card[data-job='{job}'] .job-head .badge")
            expect(badge).to_have_text("done", timeout=60_000)
            expect(page.locator("#data-age")).to_have_text("live")
            expect(page.locator("#live")).not_to_have_class(re.compile("stale"))
            assert page.evaluate("window.sameDocument")
