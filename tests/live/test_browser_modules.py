"""The page's modules in a real browser, against the Python they mirror: fold, retention, formats, labels."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from cuzk_web.fleet import commands
from cuzk_web.live import labels, retention
from prover.states import Admin, Entity, Transition, fold, offered
from tests.postgres import ROOT
from tests.states import traces

from .story import Story

pytestmark = pytest.mark.browser


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def modules(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    """A page that can import the modules and fetch files of a folder."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "static").symlink_to(ROOT / "static")
    (folder / "index.html").write_text("<!doctype html><title>modules</title>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        yield page, folder
        page.close()
        server.shutdown()


COMPARE = """async (file) => {
    const m = await import("/static/js/fold.js");
    const byKey = ([a], [b]) => a < b ? -1 : 1;
    const isMap = (v) => v && typeof v === "object" && !Array.isArray(v);
    const inOrder = (_, v) => isMap(v) ? Object.fromEntries(Object.entries(v).sort(byKey)) : v;
    const sorted = (value) => JSON.stringify(value, inOrder);
    const wrong = [];
    let count = 0;
    for (const trace of await (await fetch(file, {cache: "no-store"})).json()) {
        const state = m.emptyState();
        for (const row of trace.rows) m.apply(state, m.transition(row));
        const workers = {};
        for (const id of state.views.worker.keys()) workers[id] = {
            activity: m.activity(state, id), front: m.front(state, id), finalizing: m.finalizing(state, id),
            busy_since_us: m.busySince(state, id),
        };
        const again = m.toJson(m.fromJson(m.toJson(state)));
        const ours = [m.toJson(state), again, workers, m.gauges(state)].map(sorted);
        const theirs = [trace.snapshot, trace.snapshot, trace.workers, trace.gauges].map(sorted);
        if (ours.some((text, i) => text !== theirs[i])) wrong.push([trace.name, ours, theirs]);
        count += 1;
    }
    return {count, wrong: wrong.slice(0, 2), failures: wrong.length};
}"""


def compare(modules: tuple[Page, Path], corpus: list[dict[str, Any]]) -> int:
    """Run traces through the browser's fold; all must come out as Python's."""
    page, folder = modules
    (folder / "traces.json").write_text(json.dumps(corpus))
    result = page.evaluate(COMPARE, "/traces.json")
    assert result["failures"] == 0, result["wrong"]
    return int(result["count"])


def test_every_trace_of_the_exhaustive_search_folds_alike(modules: tuple[Page, Path]) -> None:
    corpus = list(traces.corpus())
    assert compare(modules, corpus) == len(corpus) > 500


def test_rows_that_arrive_twice_or_out_of_order_between_sessions_fold_alike(modules: tuple[Page, Path]) -> None:
    """No guard has seen these: any words, repeated and shuffled between sessions, as after a reconnect."""
    assert compare(modules, [wild_trace(seed) for seed in range(300)]) == 300


def wild_trace(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    sessions = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(3)]
    told: dict[str, list[Transition]] = {session: [] for session in sessions}
    for _ in range(60):
        session = rng.choice(sessions)
        entity = rng.choice([Entity.JOB, Entity.ATTEMPT, Entity.ATTEMPT, Entity.WORKER, Entity.ADMIN])
        told[session].append(wild_transition(rng, session, len(told[session]) + 1, entity))
    rows: list[Transition] = []
    queues = [list(ts) for ts in told.values()]
    while any(queues):
        queue = rng.choice([q for q in queues if q])
        rows.append(queue.pop(0))
        if rng.random() < 0.2:
            rows.append(rng.choice(rows))
    return traces.trace(f"wild {seed}", rows)


WORDS = {
    Entity.JOB: ("queued", "loading", "running", "done", "failed"),
    Entity.ATTEMPT: ("pending", "ready", "claimed", "device", "finalizing", "done", "failed", "lost"),
    Entity.WORKER: ("starting", "online", "lost"),
    Entity.ADMIN: ("enabled", "paused", "draining", "quarantined"),
}


def wild_transition(rng: random.Random, session: str, seq: int, entity: Entity) -> Transition:
    worker = rng.choice(["p/0/0", "p/0/1"])
    attempt = entity is Entity.ATTEMPT
    key = f"job:{rng.randrange(3)}:1" if attempt else worker if entity is not Entity.JOB else rng.choice(["a", "b"])
    return Transition(
        session, seq, 1_000_000 + rng.randrange(40), 0, entity, key, "", rng.choice(WORDS[entity]),
        job="job" if attempt else None, partition=int(key.split(":")[1]) if attempt else None,
        attempt_no=1 if attempt else None, worker=rng.choice([worker, None]) if attempt else None,
        reason=rng.choice([None, "why"]), detail=rng.choice([{}, {"kind": "x"}, {"a": 1}, {"__proto__": 1, "a": 2}]),
    )  # fmt: skip


def test_the_browser_forgets_what_the_hub_forgets(modules: tuple[Page, Path]) -> None:
    story = Story(now_us=1_800_000_000_000_000)
    story.start()
    for number in range(60):
        story.submit("window-post", f"job-{number}", partitions=2)
    story.run(90)
    second = Story(now_us=story.now_us, prover="prover-2", seed=2)
    second.start()
    rows = [t.to_row() for t in [*story.told, *second.told]]
    page, folder = modules
    (folder / "rows.json").write_text(json.dumps(rows))
    later_us = story.now_us + 1
    state = retention.forget(fold([*story.told, *second.told]), later_us)
    ours = page.evaluate(
        """async (nowUs) => {
            const [f, r] = [await import("/static/js/fold.js"), await import("/static/js/retention.js")];
            const state = f.emptyState();
            f.feed(state, await (await fetch("/rows.json")).json());
            r.forget(state, nowUs);
            return {...f.toJson(state), latest: Object.fromEntries(state.latest)};
        }""",
        later_us,
    )
    assert ours == {**state.to_json(), "latest": state.latest}
    assert 32 <= len(ours["views"]["job"]) < 60


def test_a_missing_row_is_noticed(modules: tuple[Page, Path]) -> None:
    rows = [t.to_row() for t in Story(now_us=1).told] or [
        Transition("s", seq, 1, 0, Entity.JOB, "j", "", "queued").to_row() for seq in (1, 3)
    ]
    result = modules[0].evaluate(
        """async (rows) => {
            const f = await import("/static/js/fold.js");
            try { f.feed(f.emptyState(), rows); return "nothing"; }
            catch (error) { return error instanceof f.Gap ? error.message : "other"; }
        }""",
        rows,
    )
    assert result == "session s goes from 1 to 3"


DURATIONS = {
    None: "–", -5: "0ms", 0: "0ms", 0.4: "0ms", 587: "587ms", 999: "999ms", 999.6: "1.0s", 1000: "1.0s", 5200: "5.2s",
    59_940: "59.9s", 59_949: "59.9s", 59_950: "1m 00s", 59_960: "1m 00s", 60_000: "1m 00s", 187_000: "3m 07s",
    3_599_499: "59m 59s", 3_599_500: "1h 00m", 7_500_000: "2h 05m", 86_369_999: "23h 59m", 86_370_000: "1d 0h",
    273_600_000: "3d 4h",
}  # fmt: skip


ENDED = """async (answer) => {
    const { Connection } = await import("/static/js/connection.js");
    const real = window.fetch;
    window.fetch = async () => ({ ok: false, ...answer });
    const connection = new Connection("ws://127.0.0.1:9/", "/snapshot");
    connection.start(null);
    await new Promise((done) => setTimeout(done));
    window.fetch = real;
    return connection.status;
}"""


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"type": "opaqueredirect", "status": 0}, "logged out"),
        ({"type": "basic", "status": 403}, "not allowed"),
        ({"type": "basic", "status": 503}, "waiting"),
    ],
)
def test_who_is_refused_the_snapshot_is_told_and_does_not_ask_again(
    modules: tuple[Page, Path], answer: dict[str, Any], status: str
) -> None:
    page, _ = modules
    assert page.evaluate(ENDED, answer) == status


def test_a_proof_that_came_from_elsewhere_counts(modules: tuple[Page, Path]) -> None:
    attempts = [
        ("done", None, 0, 1), ("lost", "lease_expired", 1, 1), ("skipped", "result_arrived", 1, 2),
        ("skipped", "job_failed", 2, 1), ("synthesizing", None, 3, 1),
    ]  # fmt: skip
    script = """async (attempts) => {
        const { progress } = await import("/static/js/attempts.js");
        const views = attempts.map(([state, reason, partition, n]) => [
            `a:${partition}:${n}`, { state, reason, partition, job: "a", times: { reserved: 1000 * (partition + n) } },
        ]);
        return progress({ views: { attempt: new Map(views) } }, "a", 4);
    }"""
    assert modules[0].evaluate(script, attempts) == {"done": 2, "all": 4, "first": 1}


def test_durations_read_alike_and_carry(modules: tuple[Page, Path]) -> None:
    rng = random.Random(7)
    values = [*DURATIONS, *(rng.random() * 10 ** rng.randrange(2, 10) for _ in range(2000))]
    script = """async (values) => { const f = await import("/static/js/format.js"); return values.map(f.duration); }"""
    shown = modules[0].evaluate(script, values)
    assert dict(zip(DURATIONS, shown, strict=False)) == DURATIONS
    assert shown == [labels.duration(value) for value in values]


def test_labels_read_alike_and_two_never_the_same(modules: tuple[Page, Path]) -> None:
    long = "ps-snap-" + "1" * 200
    texts = [
        "ps-snap-1000-123456", "ps-snap-1000-123457", "", "<script>alert(1)</script>", "é" * 80, "🦊" * 80, "🦊" * 81,
        long + "a" + "2" * 60, long + "b" + "2" * 60, "x" * 10_000, "‮evil" * 40,
    ]  # fmt: skip
    script = """async (texts) => { const f = await import("/static/js/label.js"); return texts.map(f.shown); }"""
    shown = modules[0].evaluate(script, texts)
    assert shown == [labels.shown(text) for text in texts]
    assert len(set(shown)) == len(texts)
    assert all(len(text) <= 80 for text in shown)


def test_sizes_and_kinds_read_alike(modules: tuple[Page, Path]) -> None:
    sizes = [2048, 4096, 8 << 20, 512 << 20, 32 << 30, 64 << 30]
    kinds = [*labels.KINDS, "window-post-2", "__proto__", "toString"]
    script = """async ([sizes, kinds]) => { const f = await import("/static/js/format.js");
        return [sizes.map(f.sectorSize), kinds.map(f.kindName)]; }"""
    assert modules[0].evaluate(script, [sizes, kinds]) == [
        [labels.sector_size(size) for size in sizes],
        [labels.kind_name(kind) for kind in kinds],
    ]


def test_bytes_percent_and_clock(modules: tuple[Page, Path]) -> None:
    script = """async () => { const f = await import("/static/js/format.js"); return [
        f.bytes(181 * 2**30), f.bytes(3 * 2**20), f.bytes(null), f.percent(181, 251), f.percent(1, 0), f.clock(42_000),
        f.clock(3_723_000), f.count(1234567), f.moment(1_800_000_000_000, "utc"), f.moment(NaN, "utc")]; }"""
    assert modules[0].evaluate(script) == [
        "181.0 GiB", "3 MiB", "–", "72%", "–", "00:42", "1:02:03", "1\u202f234\u202f567", "2027-01-15 08:00:00", "–",
    ]  # fmt: skip


def test_the_clock_trusts_the_fastest_frame(modules: tuple[Page, Path]) -> None:
    script = """async () => {
        const { ServerClock } = await import("/static/js/clock.js");
        const clock = new ServerClock();
        clock.hear(1_000_000_000, 1_000_000_000, 0);       // 1000 s, heard at once
        clock.hear(1_000_900_000, 1_000_900_000, 1300);    // sent at 1000.9 s, 400 ms under way
        const now = [clock.now(2000), clock.age(2000)];
        clock.hear(1_070_000_000, 1_070_000_000, 70_100);  // a minute later the old sample is forgotten
        return [...now, clock.now(70_100)];
    }"""
    assert modules[0].evaluate(script) == [1_002_000, 1_100, 1_070_000]


OFFERED = """async ([actions, wishes]) => {
    document.body.innerHTML = '<script type="application/json" id="actions"></script>';
    document.getElementById("actions").textContent = JSON.stringify(actions);
    const m = await import("/static/js/commands.js");
    const made = m.makeActions("a/0/0");
    const state = {views: {command: new Map()}};
    return wishes.map((wish) => {
        m.fillActions(made, state, "a/0/0", "W0", wish, "idle");
        return made.buttons.filter((button) => !button.hidden).map((button) => button.dataset.action);
    });
}"""


def test_cards_offer_what_may_be_asked(modules: tuple[Page, Path]) -> None:
    page, _ = modules
    wishes = [wish.value for wish in Admin]
    shown = page.evaluate(OFFERED, [commands.card_actions(), wishes])
    expected = [[action for action in offered(wish) if action in commands.ON_CARDS] for wish in wishes]
    assert shown == expected and sum(map(len, expected)) >= 7
