"""One hub a web process: it follows the event log and serves every open page from one fold and one text a tick.

A notification only says that there is something to read; what is read is decided by the cursor (session, seq). A
notification that is lost, or a listener that died silently, costs at most POLL_S.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import psycopg

from prover.errors import CuzkError
from prover.states import Entity, FleetState, apply

from . import protocol, snapshot
from .auditor import Auditor
from .retention import KEEP_JOBS, forget
from .ring import CAPACITY, Ring
from .rows import SITE, Row, encode, transition
from .source import RETRY_S, Heads, Reader, listen
from .viewer import Viewer

log = logging.getLogger(__name__)

PAUSE_S: Final = (0.02, 0.1)  # between frames, at least and at most: what comes after a quiet time is sent at once
PAUSE_SHARE: Final = 1.0  # a pause lasts so many times as long as its frame took: a busy process sends fewer
POLL_S: Final = 5.0  # reads without being told to
PULSE_S: Final = 1.0  # gauges, heartbeats, and a sign of life to every viewer
MARK_S: Final = 2.0  # how often the database is asked whether a session's lease ran out
CHUNK: Final = 500  # rows of a catching-up frame
SNAPSHOT_S: Final = 1.0  # a snapshot's text serves everyone who asks within this time
FORGET_S: Final = 5.0


class Behind(Exception):
    """The log cannot be followed from where the hub is: too far, or not dense. Take a snapshot."""


class HubFailed(CuzkError):
    """The live page met an error that it does not know; the web process ends, and whoever watches it starts it anew."""

    code = "hub_failed"


class Hub:
    """Use `start` and `stop` on the event loop that serves the viewers."""

    def __init__(self) -> None:
        self.state = FleetState()
        self.heads: dict[str, int] = {}  # of every session, shown or not
        self.live: dict[str, dict[str, Any]] = {}
        self.viewers: set[Viewer] = set()
        self.ring = Ring()
        self.ready = asyncio.Event()  # there is a state to show
        self.read_us = 0  # the database's time when it was last read
        self.failed = asyncio.Event()  # a task has died, of `failure`; nothing is followed any more
        self.failure: HubFailed | None = None
        self.on_turn: Callable[[], None] = lambda: None  # called at each turn of the loop that follows the log
        self._news = asyncio.Event()
        self._offset_us = 0  # the database's clock minus our monotonic one
        self._log_reader, self._pulse_reader = Reader(), Reader()
        self._tasks: list[asyncio.Task[None]] = []
        self._snapshot: tuple[float, str] | None = None
        self._forgotten_at = 0.0
        self._snapshot_due = False
        self.auditor = Auditor(self, self.begin_again)

    def start(self) -> None:
        """Begin to follow the log."""
        jobs = {
            "listen": listen(self._news.set),
            "follow": self._follow(),
            "pulse": self._pulse(),
            "audit": self.auditor.run(),
        }
        self._tasks = [asyncio.create_task(self._alive(name, job), name=f"hub {name}") for name, job in jobs.items()]

    async def stop(self) -> None:
        """End all tasks and close the connections."""
        pending = set(self._tasks)
        # one cancellation may be lost: in Python 3.11 asyncio.wait_for, which psycopg uses, swallows some
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)
        await self._log_reader.close()
        await self._pulse_reader.close()

    def begin_again(self) -> None:
        """Take a new snapshot, as soon as possible."""
        self._snapshot_due = True
        self._news.set()

    def now_us(self) -> int:
        """The database's time."""
        return time.monotonic_ns() // 1000 + self._offset_us

    @property
    def age_s(self) -> float | None:
        """How long ago the log was last read, in seconds; None before the first time. Up to POLL_S is normal."""
        return (self.now_us() - self.read_us) / 1e6 if self.ready.is_set() else None

    # -- viewers --------------------------------------------------------------------------------------------------

    def enter(self, viewer: Viewer) -> None:
        """A page was opened; it gets nothing until it says what it has."""
        self.viewers.add(viewer)

    def leave(self, viewer: Viewer) -> None:
        """A page was closed."""
        self.viewers.discard(viewer)

    async def since(self, viewer: Viewer, cursor: Mapping[str, int]) -> None:
        """The viewer has everything up to `cursor`: bring it in step."""
        await self.ready.wait()
        viewer.subscribe(cursor)
        await self._serve(viewer)

    async def ack(self, viewer: Viewer, n: int) -> None:
        """The viewer has read frame `n`; if it fell behind, it is served again."""
        viewer.ack(n)
        if viewer.cursor is not None:
            await self._serve(viewer)

    def snapshot_json(self) -> str:
        """What a page starts from, as JSON; at most SNAPSHOT_S old (the socket brings the rest)."""
        now = time.monotonic()
        if self._snapshot is None or now - self._snapshot[0] > SNAPSHOT_S:
            content = {
                "state": self.state.to_json(),
                "now_us": self.now_us(),
                "read_us": self.read_us,
                "live": self.live,
            }
            self._snapshot = now, protocol.compact(content)
        return self._snapshot[1]

    async def _broadcast(self, shared: str, before: Mapping[str, int] | None = None) -> None:
        """Send to every viewer in step. `before` is the cursor that one whose window is full stays at."""
        for viewer in list(self.viewers):
            if not viewer.in_step:
                continue
            if viewer.open:
                await self._tell(viewer, viewer.push(shared))
            elif before is not None:
                viewer.cursor = dict(before)

    async def _tell(self, viewer: Viewer, sending: Awaitable[None]) -> None:
        """A socket that is just closing refuses what is sent: its viewer leaves, and nobody else is concerned."""
        try:
            await sending
        except Exception as error:
            log.info("a viewer is let go: %s", error)
            self.leave(viewer)

    async def _serve(self, viewer: Viewer) -> None:
        """Send what follows the viewer's cursor, as far as its window goes; in step at its end."""
        async with viewer.serving:
            while viewer.cursor is not None and viewer.open:
                rows = await self._following(viewer.cursor)
                if rows is None:
                    await viewer.reset()
                elif not rows:
                    viewer.cursor = None
                    await viewer.push(self._body((), protocol.compact(self.live)))
                else:
                    viewer.cursor |= {row.session: row.seq for row in rows}
                    await viewer.push(self._body(rows))

    async def _following(self, cursor: Mapping[str, int]) -> list[Row] | None:
        """The next rows after `cursor`, none when there are none, None when they are too many or were never ours."""
        behind = {}
        for session, head in self.state.heads.items():
            seq = cursor.get(session, 0)
            if seq > head:
                return None
            if seq < head:
                behind[session] = seq
        if sum(self.state.heads[session] - seq for session, seq in behind.items()) > CAPACITY:
            return None
        covered = {session: seq for session, seq in behind.items() if self.ring.covers(session, seq)}
        if len(covered) == len(behind):
            return self.ring.after(covered, CHUNK)
        return await self._from_table(behind)

    async def _from_table(self, behind: Mapping[str, int]) -> list[Row]:
        high = {session: min(self.state.heads[session], seq + CHUNK) for session, seq in behind.items()}
        reader = Reader()
        try:
            return [encode(transition(record)) for record in await reader.rows(behind, high)]
        finally:
            await reader.close()

    def _body(self, rows: Iterable[Row], live: str | None = None) -> str:
        return protocol.body(self.now_us(), self.read_us, [row.text for row in rows], live)

    # -- following the log ----------------------------------------------------------------------------------------

    async def _alive(self, name: str, job: Coroutine[Any, Any, None]) -> None:
        """A task that dies takes the hub with it, and the server ends: better no page than one that looks alive."""
        try:
            await job
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failure = HubFailed(f"the hub's task {name!r} died of {type(error).__name__}: {error}")
            log.critical("[%s] %s", self.failure.code, self.failure, exc_info=error)
            self.ready.clear()
            self.failed.set()

    async def _follow(self) -> None:
        failures = 0
        while True:
            self.on_turn()
            try:
                if not self.ready.is_set():
                    await self._begin()
                await self._wait_for_news()
                started = time.monotonic()
                await self._read()
                failures = 0
                await asyncio.sleep(pause(time.monotonic() - started))
            except Behind as error:
                log.warning("taking a new snapshot: %s", error)
                self.ready.clear()
            except psycopg.Error as error:
                log.warning("the database cannot be read: %s", str(error).strip())
                await asyncio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
                failures += 1
                self._news.set()

    async def _wait_for_news(self) -> None:
        with suppress(TimeoutError):  # not wait_for: it may swallow a cancellation
            async with asyncio.timeout(POLL_S):
                await self._news.wait()
        self._news.clear()

    async def _begin(self) -> None:
        """Start from a snapshot, and make everyone start from it."""
        start = await snapshot.read()
        self.state, self.heads, self._snapshot = start.state, dict(start.heads), None
        self.ring.clear()
        self._clock(start.now_us)
        self.ready.set()
        for viewer in list(self.viewers):
            if viewer.subscribed:
                await self._tell(viewer, viewer.reset())

    async def _read(self) -> None:
        if self._snapshot_due:
            self._snapshot_due = False
            raise Behind("what it shows differs from the database")
        heads = await self._log_reader.heads()
        low = self._behind(heads)
        self._clock(heads.now_us)
        if low:
            records = await self._log_reader.rows(low, heads.seqs)
            await self._take(records, {session: heads.seqs[session] for session in low})
        if time.monotonic() - self._forgotten_at > FORGET_S or len(self.state.views[Entity.JOB]) > 4 * KEEP_JOBS:
            self._forget()

    def _behind(self, heads: Heads) -> dict[str, int]:
        """session -> what we have, of those that have more. Raises Behind."""
        for session in self.heads if heads.all else heads.seqs:
            if (seq := self.heads.get(session, 0)) > heads.seqs.get(session, 0):
                raise Behind(f"session {session} went back from {seq} to {heads.seqs.get(session, 0)}")
        low = {s: self.heads.get(s, 0) for s, head in heads.seqs.items() if head > self.heads.get(s, 0)}
        if (missing := sum(heads.seqs[session] - seq for session, seq in low.items())) > CAPACITY:
            raise Behind(f"{missing} rows behind")
        return low

    async def _take(self, records: list[tuple[Any, ...]], high: Mapping[str, int]) -> None:
        """Apply new rows and send them on. Raises Behind when a row is missing."""
        transitions = [transition(record) for record in records]
        if len(transitions) != sum(seq - self.heads.get(session, 0) for session, seq in high.items()):
            raise Behind("a transition is missing below its session's head")
        before = dict(self.state.heads)
        for t in transitions:
            apply(self.state, t)
        self.heads.update(high)
        rows = [encode(t) for t in transitions]
        self.ring.append(rows)
        await self._broadcast(self._body(rows), before)

    def _forget(self) -> None:
        self._forgotten_at = time.monotonic()
        forget(self.state, self.now_us())
        self.ring.forget(self.state.heads)

    def _clock(self, now_us: int) -> None:
        self._offset_us = now_us - time.monotonic_ns() // 1000
        self.read_us = now_us

    # -- gauges ---------------------------------------------------------------------------------------------------

    async def _pulse(self) -> None:
        """Once a second: gauges if the database can be read, and a sign of life in any case."""
        marked = 0.0
        while True:
            await self.ready.wait()
            started = time.monotonic()
            try:
                if started - marked > MARK_S:
                    marked = started
                    await self._pulse_reader.mark_lost()
                live = await self._pulse_reader.pulse(list(self.state.views[Entity.SESSION]))
                alerts = await self._pulse_reader.alerts()
                self.live = live | {SITE: {"alerts": alerts, "audit": self.auditor.report()}}
                shared = self._body((), protocol.compact(self.live))
            except psycopg.Error as error:
                log.warning("the gauges cannot be read: %s", str(error).strip())
                shared = self._body(())
            await self._broadcast(shared)
            for viewer in [v for v in self.viewers if v.too_slow]:
                self.leave(viewer)
                await self._tell(viewer, viewer.close(protocol.CloseCode.TOO_SLOW))
            await asyncio.sleep(max(0.0, PULSE_S - (time.monotonic() - started)))


def pause(took_s: float) -> float:
    """Seconds between a frame that took so long and the next."""
    least, most = PAUSE_S
    return min(most, max(least, PAUSE_SHARE * took_s))


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub() -> Hub:
    """The hub of the running event loop, started by whoever asks first."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
        _hubs[loop].start()
    return _hubs[loop]


def running() -> list[Hub]:
    """The hubs of this process, from any thread; starts none."""
    return list(_hubs.values())


async def close() -> None:
    """Stop the hub of the running event loop, if it has one."""
    started = _hubs.pop(asyncio.get_running_loop(), None)
    if started is not None:
        await started.stop()
