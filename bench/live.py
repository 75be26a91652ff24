"""From a transition to a pixel: 1000 transitions a second, 50 viewers, one of them a real Chromium.

`python -m bench.live [SECONDS [RATE [VIEWERS]]]`. The transitions are written as the prover's journal writes them, in
its rhythm, a batch a transaction; each is timed from its own stamp, so the wait for its batch counts. A row is at a
viewer when its frame has been received, and on the page when a frame was painted after the DOM showed its number.
Wanted: p50 under 100 ms, p99 under 200 ms, nothing lost, the web process under 150 MiB. All of it runs on this machine:
the load average is printed, because a machine that is busy with other things measures those.
"""

from __future__ import annotations

import asyncio
import base64
import bisect
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import psycopg

WARM_S = 3.0
DEVICES = 8


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def say(name: str, values: Sequence[float]) -> None:
    p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
    print(f"{name:34} p50 {p50:6.0f} ms  p99 {p99:6.0f} ms  max {max(values, default=0):6.0f} ms  ({len(values)} rows)")


# -- the writer, a process of its own --------------------------------------------------------------------------------


def write(owner: str, seconds: float, rate: float) -> None:
    """Writes for so long, then prints {seq: microseconds of its stamp} of the session as JSON."""
    from cuzk_web.live.retention import forget
    from prover.journal.batch import write as write_batch
    from prover.journal.beat import INTERVAL as BEAT_S
    from prover.journal.mirror import Mirror
    from prover.journal.session import open_session
    from prover.journal.writer import INTERVAL
    from tests.live.story import SITE, Story
    from tests.live.writer import Writer

    with psycopg.connect(owner, autocommit=True) as connection:
        # an attempt makes about ten transitions, and a device does one after the other
        scale = DEVICES / (rate / 10) / 1.3
        story = Story(time.time_ns() // 1000, devices=DEVICES, synth_slots=16, ready_slots=24, scale=scale)
        story.session = open_session(connection, story.prover, "0.1.0")
        story.start()
        site, mirror, head = Writer(connection), Mirror(story.session), 0
        stamps: dict[int, int] = {}
        committed: list[float] = []
        beaten = 0.0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            while story.state.gauges()["open_jobs"] < 6:
                story.submit("window-post", f"deadline-{story._jobs}", partitions=13)
            story.run(max(0.0, time.time() - story.now_us / 1e6))
            told = story.take()
            queued = [t for t in told if t.session == SITE]
            mine = [t for t in told if t.session != SITE]
            if queued:
                site.write(queued)
                connection.execute(
                    "UPDATE job SET session_id = %s WHERE session_id IS NULL AND ended_at IS NULL", [story.session]
                )
            head = write_batch(connection, mirror, head, mine)
            now_us = time.time_ns() // 1000
            if began - beaten > BEAT_S:  # a commit of its own, in a prover of another process
                site.beat(story.session)
                beaten = began
            stamps |= {t.seq: t.at_us for t in mine}
            committed += [(now_us - t.at_us) / 1000 for t in mine]
            forget(story.state, story.now_us)
            time.sleep(max(0.0, INTERVAL - (time.monotonic() - began)))
        print(json.dumps({"session": story.session, "stamps": stamps, "committed": committed}))


# -- viewers without a browser, all in one process -------------------------------------------------------------------


@dataclass
class Viewers:
    """Sockets that read, acknowledge, and note when each row came."""

    latencies: list[float] = field(default_factory=list)
    heads: dict[tuple[int, str], int] = field(default_factory=dict)
    lost: int = 0
    resets: int = 0
    _parsed: dict[str, list[list[Any]]] = field(default_factory=dict)

    def receive(self, viewer: int, payload: str, counts: bool) -> int:
        """Take a frame; its number."""
        now_us = time.time_ns() // 1000
        if not payload.startswith('{"n":'):
            return 0  # the server closed the socket
        number, _, shared = payload.partition(",")
        rows = self._rows(shared)
        for session, seq, at_us in rows:
            last = self.heads.get((viewer, session), 0)
            self.lost += max(0, seq - last - 1) if last else 0
            if seq > last:
                self.heads[viewer, session] = seq
                if counts:
                    self.latencies.append((now_us - at_us) / 1000)
        self.resets += '"reset"' in shared
        return int(number.removeprefix('{"n":'))

    def _rows(self, shared: str) -> list[list[Any]]:
        """All viewers get the same text: it is parsed once."""
        if shared not in self._parsed:
            if len(self._parsed) > 50:
                self._parsed.clear()
            self._parsed[shared] = [row[:3] for row in json.loads("{" + shared).get("rows", [])]
        return self._parsed[shared]


async def watch(url: str, cookie: str, count: int, seconds: float) -> Viewers:
    """All sockets until the time is over."""
    viewers = Viewers()
    until = time.monotonic() + seconds
    await asyncio.gather(*(follow(viewers, number, url, cookie, until) for number in range(count)))
    return viewers


async def follow(viewers: Viewers, number: int, url: str, cookie: str, until: float) -> None:
    """One socket: the least of RFC 6455 that it takes, so that the bench measures the site and not its clients."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**24)
    key = base64.b64encode(os.urandom(16)).decode()
    writer.write(
        f"GET /ws/live HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {url.rstrip('/')}\r\nCookie: {cookie}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    warm = time.monotonic() + WARM_S
    acked = 0
    send(writer, '{"since":{}}')
    with suppress(TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(until - time.monotonic()):
            while True:
                seen = viewers.receive(number, await receive(reader), time.monotonic() > warm)
                if seen - acked >= 10:
                    acked = seen
                    send(writer, f'{{"ack":{seen}}}')
    writer.close()


async def receive(reader: asyncio.StreamReader) -> str:
    """The text of the server's next frame."""
    _, length = await reader.readexactly(2)
    if length >= 126:
        length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8))
    return (await reader.readexactly(length)).decode()


def send(writer: asyncio.StreamWriter, text: str) -> None:
    """A short text frame, masked as a client's must be (with zeros: there is nothing to hide)."""
    writer.write(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode())


def run_viewers(url: str, cookie: str, count: int, seconds: float) -> None:
    """Prints what they saw as JSON."""
    seen = asyncio.run(watch(url, cookie, count, seconds))
    print(json.dumps({"latencies": seen.latencies[:: max(1, len(seen.latencies) // 200_000)], "lost": seen.lost,
                      "resets": seen.resets, "sockets": len({viewer for viewer, _ in seen.heads})}))  # fmt: skip


# -- the whole -------------------------------------------------------------------------------------------------------

#: notes (number shown, wall time in ms after the paint) whenever the page has drawn up to another number
OBSERVE = """(session) => {
    window.painted = [];
    const root = document.getElementById("live");
    new MutationObserver(() => {
        const seq = JSON.parse(root.dataset.seq)[session];
        const note = () => window.painted.push([seq, performance.timeOrigin + performance.now()]);
        requestAnimationFrame(() => setTimeout(note));
    }).observe(root, {attributeFilter: ["data-seq"]});
}"""


def pixels(painted: Iterable[Sequence[float]], stamps: dict[str, int], after_ms: float) -> list[float]:
    """For each row the time from its stamp to the first paint that had it."""
    marks = [(int(seq), at) for seq, at in painted if seq is not None]
    numbers = [seq for seq, _ in marks]
    result = []
    for seq, at_us in stamps.items():
        index = bisect.bisect_left(numbers, int(seq))
        if index < len(marks) and at_us / 1000 > after_ms:
            result.append(marks[index][1] - at_us / 1000)
    return result


def child(name: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.live", name, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def main(seconds: float = 20, rate: float = 1000, viewers: int = 50) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    from prover.stack.roles import OWNER
    from tests.browser import make_people, serving
    from tests.postgres import prepare, running_server

    django.setup()
    with running_server(durable=True) as server:
        database = prepare(server, "cuzk")
        make_people(database)
        with serving(database) as site:
            measure(site, database.url(OWNER), seconds, rate, viewers)


def measure(site: Any, owner: str, seconds: float, rate: float, viewers: int) -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser import FLAGS, find_browser, login

    web = psutil.Process(site.process.pid)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        login(page, site)
        cookie = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies())
        others = child("viewers", site.url, cookie, viewers - 1, seconds + 2)
        time.sleep(1)
        writer = child("write", owner, seconds, rate)
        page.wait_for_selector(".worker")
        session = page.locator(".prover .fact .label").get_attribute("title")
        page.evaluate(OBSERVE, session)
        busy, start = web.cpu_times(), time.time()
        resident = []
        while writer.poll() is None and time.time() - start < seconds - 2:
            page.wait_for_timeout(500)
            resident.append(web.memory_info().rss)
        spent, wall = web.cpu_times(), time.time() - start
        page.wait_for_timeout(2500)
        painted = page.evaluate("window.painted")
        written, seen = json.loads(writer.communicate()[0]), json.loads(others.communicate()[0])
        shown = page.locator("#lag").inner_text()
        browser.close()
    stamps = written["stamps"]
    first, last = min(stamps.values()), max(stamps.values())
    print(
        f"{len(stamps)} transitions, {len(stamps) / (last - first) * 1e6:.0f} a second, {seen['sockets']} + 1 viewers"
    )
    say("transition to commit", written["committed"])
    say("transition to viewer", seen["latencies"])
    say("transition to pixel", pixels(painted, stamps, (start + WARM_S) * 1000))
    print(f"the page's own figure {shown}; lost {seen['lost']}, resets {seen['resets']}")
    cpu = (spent.user + spent.system - busy.user - busy.system) / wall
    print(f"web process: {100 * cpu:.0f} % of a core, at most {max(resident) / 2**20:.0f} MiB")
    if seen["lost"]:
        sys.exit("rows were lost")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", owner, seconds, rate]:
            os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
            write(owner, float(seconds), float(rate))
        case ["viewers", url, cookie, count, seconds]:
            run_viewers(url, cookie, int(count), float(seconds))
        case numbers:
            main(*map(float, numbers[:2]), *map(int, numbers[2:3]))
