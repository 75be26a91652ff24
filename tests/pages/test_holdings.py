"""How far the loading or making of a key or its tables is: a bar that goes on, in every theme and width."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from prover.states import Entity
from tests.browser import Site, login, screenshot, watched

from .conftest import Fleet

pytestmark = [pytest.mark.browser, pytest.mark.postgres]

NAMES = {
    "key:porep-c2-2KiB@setup": "PoRep C2 2 KiB, local keys being made",
    "key:window-post-2KiB@tables": "WindowPoSt 2 KiB, tables of more bases than anybody would care to read the name of",
}


def report(fleet: Fleet, key: str, state: str, **detail: Any) -> None:
    fleet.story.now_us += 1000
    fleet.story.move(
        Entity.HOLDING, f"prover-1:{key}", state, detail={"name": NAMES.get(key, key.split(":")[1])} | detail
    )
    fleet.flush()


#: share of the track that is filled, its height, and the contrast of the two as WCAG counts it
DRAWN = """(meter) => {
    const [track, fill] = [meter, meter.firstElementChild].map((node) => node.getBoundingClientRect());
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = (node) => {
        canvas.fillStyle = getComputedStyle(node).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const [a, b] = [light(meter), light(meter.firstElementChild)];
    return {share: fill.width / track.width, height: fill.height, contrast: Math.max(a / b, b / a),
            inside: track.right <= innerWidth && track.width > 100};
}"""


def bar(page: Page, key: str) -> Any:
    return page.get_by_role("progressbar", name=NAMES[key])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 360])
def test_it_is_drawn(served: Site, fleet: Fleet, browser: Browser, scheme: Any, width: int) -> None:
    made, tables = NAMES
    report(fleet, made, "loading", progress=0.25)
    report(fleet, tables, "loading", progress=0.62, bytes=48 << 20)
    report(fleet, "program:window-post-2KiB", "compiling")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    with watched(context) as page:
        login(page, served, "vera")
        for key, share in ((made, 25), (tables, 62)):
            expect(bar(page, key)).to_have_attribute("aria-valuenow", str(share))
            drawn = bar(page, key).evaluate(DRAWN)
            assert drawn["share"] == pytest.approx(share / 100, abs=0.01)
            assert drawn["contrast"] >= 3 and drawn["height"] >= 4 and drawn["inside"]
        expect(page.locator(".holding .meter:visible")).to_have_count(2)  # how far a compilation is nobody knows
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        screenshot(page, f"holdings-{scheme}-{width}")
        report(fleet, made, "loading", progress=0.7)
        expect(bar(page, made)).to_have_attribute("aria-valuenow", "70")
        expect(page.locator(".holding", has_text="PoRep").locator(".muted")).to_have_text("70%")
        report(fleet, made, "ready", bytes=41 << 20)
        report(fleet, tables, "ready", progress=1, bytes=48 << 20)
        report(fleet, "program:window-post-2KiB", "ready")
        expect(page.locator(".holding .meter:visible")).to_have_count(0)
        expect(page.locator(".holding", has_text="PoRep").locator(".muted")).to_have_text("41 MiB")
    context.close()


@pytest.mark.parametrize(
    ("progress", "shown"), [(0, "0"), (1, "100"), (1.7, "100"), (-1, "0"), ("half", None), (None, None)]
)
def test_odd_progress(served: Site, fleet: Fleet, page: Page, progress: Any, shown: str | None) -> None:
    made, _ = NAMES
    report(fleet, made, "loading", progress=progress)
    login(page, served, "vera")
    expect(page.locator(".holding", has_text="PoRep")).to_be_visible()
    expect(page.locator(".holding .meter:visible")).to_have_count(0 if shown is None else 1)
    if shown is not None:
        expect(bar(page, made)).to_have_attribute("aria-valuenow", shown)
    report(fleet, made, "ready")
