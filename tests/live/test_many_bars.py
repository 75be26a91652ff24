"""10,000 bars: what is in view is drawn, with no more elements or strokes than that takes; all of it can be read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.postgres import ROOT

pytestmark = pytest.mark.browser

SHOWN = 40
PAGE = """<!doctype html><title>bars</title><link rel="stylesheet" href="/static/css/tokens.css">
<link rel="stylesheet" href="/static/css/app.css"><link rel="stylesheet" href="/static/css/timeline.css">
<main style="width: 1200px">
<button id="theme"><b id="theme-word"></b></button><button id="zone"></button><div id="plot"></div></main>"""

#: a job of 1250 attempts of 8 phases each, one second apart, and what a canvas is asked to draw
BEGIN = """async () => {
    const { emptyState } = await import("/static/js/fold.js");
    const { jobRows } = await import("/static/js/bars.js");
    const { Timeline } = await import("/static/js/timeline.js");
    const states = ["reserved", "synthesizing", "ready", "claimed", "device_wait", "device", "finalizing", "pending"];
    const state = emptyState();
    state.views.job.set("j", { state: "running", times: {}, detail: { partitions: 1250 }, session: "s", seq: 1 });
    for (let p = 0; p < 1250; p++) {
        const start = 1e6 * p;
        const times = Object.fromEntries(states.map((name, i) => [name, start + 1e5 * ((i + 1) % 8)]));
        state.views.attempt.set(`j:${p}:1`, {
            state: "done", times: { ...times, done: start + 8e5 }, detail: {}, job: "j", partition: p, attempt_no: 1,
            worker: null, reason: null, session: "s", seq: p + 2,
        });
    }
    window.bars = [];
    for (const name of ["rect", "roundRect"]) {
        const plain = Path2D.prototype[name];
        Path2D.prototype[name] = function (x, y, width, ...rest) {
            window.bars.push([x, y, width]);
            plain.call(this, x, y, width, ...rest);
        };
    }
    window.timeline = new Timeline(document.getElementById("plot"), { label: "bars" });
    window.show = (rows, from, to) => {
        window.redraw = () => { window.bars.length = 0; timeline.draw(to); };
        timeline.set(rows, from, to, to);
        timeline.describe(to);
        timeline.draw(to);
    };
    window.rows = jobRows(state, "j");
    while (!timeline.plotWidth) await new Promise(requestAnimationFrame);
    return rows.reduce((n, row) => n + row.bars.length, 0);
}"""

SEEN = """() => (redraw(), {
    elements: document.querySelectorAll("#plot *:not(.sr, .sr *)").length,
    height: timeline.canvas.height,
    names: [...document.querySelectorAll(".tl-names > div")].map((node) => node.textContent),
    bars: window.bars.slice(),
})"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("bars")
    Path(folder / "static").symlink_to(ROOT / "static")
    (folder / "index.html").write_text(PAGE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture
def many(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    assert page.evaluate(BEGIN) == 10_000
    yield page
    page.close()


def test_of_1250_rows_the_newest_are_drawn_and_scrolling_shows_others(many: Page) -> None:
    many.evaluate("() => show(rows, 0, 1250e3)")
    seen = many.evaluate(SEEN)
    assert seen["names"] == [f"P{n}" for n in range(1250 - SHOWN, 1250)]
    assert seen["elements"] < 10 * SHOWN and seen["height"] < 1000
    assert SHOWN <= len(seen["bars"]) <= 8 * SHOWN
    many.hover("canvas")
    many.mouse.wheel(0, -1_000_000)
    many.wait_for_function("document.querySelector('.tl-names > div').textContent === 'P0'")
    top = many.evaluate(SEEN)
    assert top["names"] == [f"P{n}" for n in range(SHOWN)]
    assert top["elements"] < 10 * SHOWN
    # new rows don't take away what somebody looks at
    many.evaluate("() => { rows.push({ ...rows[0], key: 'x', name: 'new' }); show(rows, 0, 1250e3); }")
    assert many.evaluate(SEEN)["names"] == top["names"]


def test_the_last_rows_are_followed(many: Page) -> None:
    many.evaluate("() => show(rows.slice(0, 600), 0, 1250e3)")
    assert many.evaluate(SEEN)["names"][-1] == "P599"
    many.evaluate(PAINTED)
    many.evaluate("() => show(rows.slice(0, 700), 0, 1250e3)")
    many.evaluate(PAINTED)
    assert many.evaluate(SEEN)["names"][-1] == "P699"


def test_the_keyboard_reaches_rows_that_are_not_in_view(many: Page) -> None:
    many.evaluate("() => show(rows, 0, 1250e3)")
    many.focus("canvas")
    many.keyboard.press("ArrowRight")  # selects the first row
    assert many.evaluate(SEEN)["names"][0] == "P0"
    assert many.locator(".tl-tip").inner_text().startswith("P0: ")


def test_in_one_row_of_10000_bars_no_more_is_drawn_than_has_room(many: Page) -> None:
    """Of a worker: what falls on the same pixels is left out, the newest is there, and zooming shows the rest."""
    row = """() => {
        const states = ["device", "claimed"];
        const bars = Array.from({ length: 10000 }, (_, i) => ({
            id: i, from: 90 * i, to: i === 9999 ? null : 90 * (i + 1), state: states[(i >> 3) % 2],
            text: () => `bar ${i}`,
        }));
        window.one = [{ key: "w", name: "W0", bars, describe: () => "" }];
        show(one, 0, 900e3);
    }"""
    many.evaluate(row)
    seen = many.evaluate(SEEN)
    width = many.evaluate("() => timeline.plotWidth")
    assert 100 < len(seen["bars"]) <= 2 * width
    assert max(x + w for x, _, w in seen["bars"]) >= width - 2
    assert seen["elements"] < 40
    many.evaluate("() => show(one, 450e3, 450.9e3)")
    near = many.evaluate(SEEN)["bars"]
    assert 10 <= len(near) <= 20
    box = many.locator("canvas").bounding_box()
    assert box is not None
    many.mouse.move(box["x"] + 5, box["y"] + 30)
    assert many.locator(".tl-tip").inner_text() == "bar 5000"


def test_the_table_has_every_row_and_only_what_changes_is_written(many: Page) -> None:
    at_once = many.evaluate("() => (show(rows, 0, 1250e3), document.querySelectorAll('.tl-table tr').length)")
    assert 0 < at_once < 100, "no frame waits for all of them"
    rows = many.get_by_role("table", name="bars").get_by_role("row")
    expect(rows).to_have_count(1250)
    assert rows.nth(0).get_by_role("rowheader").text_content() == "P0: done"
    words = many.evaluate("() => [...document.querySelectorAll('.tl-table td')].map((td) => td.textContent)")
    assert all(text.endswith(", done") and "device 100ms" in text for text in words)
    written = """() => {
        const seen = new MutationObserver(() => {});
        seen.observe(document.querySelector(".tl-table"), {subtree: true, childList: true, characterData: true});
        const live = { ...rows[700], ends: [], describe: (at) => `so far ${at}` };
        show(rows.with(700, live), 0, 1250e3);
        timeline.describe(1251e3);
        timeline.draw(1251e3);
        return seen.takeRecords().map((record) => record.target.parentElement.closest("tr")?.textContent);
    }"""
    changed = many.evaluate(written)
    assert 1 <= len(changed) <= 4 and set(changed) == {"P700: doneso far 1251000"}


def test_a_row_that_comes_in_the_midst_is_read_there(many: Page) -> None:
    many.evaluate("() => show(rows.toSpliced(600, 1), 0, 1250e3)")
    expect(many.get_by_role("table", name="bars").get_by_role("row")).to_have_count(1249)
    many.evaluate("() => show(rows, 0, 1250e3)")
    heads = many.evaluate("() => [...document.querySelectorAll('.tl-table th')].map((th) => th.textContent)")
    assert heads == [f"P{n}: done" for n in range(1250)]
