"""Makes the comparisons of `audit` beside a hub: reads over a connection of its own, and compares in another thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from django.conf import settings

from prover.states import Entity, FleetState, Transition

from . import audit, snapshot
from .audit import Difference, Finding
from .rows import COLUMNS, SITE, transition
from .source import connect

if TYPE_CHECKING:
    from .hub import Hub

log = logging.getLogger(__name__)

SHARE: Final = 30  # a round is followed by a pause of so many times its length
SETTLE_S: Final = 1.5  # by then what happened before a sample was taken has been read
STEP_S: Final = 5.0  # that the hub gets to come to where a snapshot stands
MOST_ROWS: Final = 5000  # that may lie between a snapshot and the hub; of more, the round is skipped
MOST_POINTERS: Final = 2000  # things that a round looks up in the log; the next goes on behind them
SHOWN_US: Final = 10 * 60 * 1_000_000  # that a finding stays on the page after it was true last

_BY_PLACE: Final[LiteralString] = f"""SELECT {COLUMNS} FROM unnest(%s::uuid[], %s::bigint[]) AS k(id, seq)
    JOIN transition t ON t.session_id = k.id AND t.seq = k.seq"""
_BY_JOB: Final[LiteralString] = f"SELECT {COLUMNS} FROM transition t WHERE t.job = %s::uuid LIMIT 20000"
_RECORD: Final = "SELECT record_finding(%s, %s, %s, %s, %s, %s)"


class Auditor:
    """`run` is a task of the hub; `report` is what pages show."""

    def __init__(self, hub: Hub, again: Callable[[], None], every_s: float | None = None) -> None:
        """`again` makes the hub start from a new snapshot. `every_s`: CUZK_AUDIT_SECONDS unless it is given."""
        self._hub, self._again = hub, again
        self.every_s = settings.AUDIT_S if every_s is None else every_s
        self._open: dict[Difference, int] = {}  # -> when it was true last
        self._gauges: dict[tuple[str, str], int] = {}  # (session, gauge) -> rounds in which it differed
        self._place = 0  # where the next round's look into the log begins
        self._job = 0
        self.rounds = self.skipped = 0
        self.checked_us: int | None = None

    async def run(self) -> None:
        """Round after round, for ever. A database in trouble is the hub's to tell."""
        while True:
            started = time.monotonic()
            try:
                await self.round()
            except (psycopg.Error, TimeoutError) as error:
                self.skipped += 1
                log.info("no audit: %s", str(error).strip() or type(error).__name__)
            await asyncio.sleep(max(self.every_s, SHARE * (time.monotonic() - started - SETTLE_S)))

    def report(self) -> dict[str, Any]:
        """When it was looked last, how often, and what differs."""
        now_us = self._hub.now_us()
        self._open = {one: us for one, us in self._open.items() if us > now_us - SHOWN_US}
        findings = [{"code": one.code.value, "text": one.text, "at_us": us} for one, us in self._open.items()]
        counts = {"rounds": self.rounds, "skipped": self.skipped}
        return {"checked_us": self.checked_us, **counts, "findings": findings[: audit.MOST_FINDINGS]}

    async def round(self) -> list[Difference]:
        """One of each comparison; what differs is kept, recorded and told."""
        await self._hub.ready.wait()
        samples = dict(self._hub.live)
        await asyncio.sleep(SETTLE_S)
        found = await self._page()
        state, now_us = self._hub.state.copy(), self._hub.now_us()
        # in a thread with a loop of its own: whoever waits for a frame does not wait for this
        found += await asyncio.to_thread(asyncio.run, self._log(state, now_us))
        found += await asyncio.to_thread(self._differing_gauges, state, samples)
        self.rounds += 1
        self.checked_us = now_us
        await self._tell(found, now_us)
        return found

    async def _page(self) -> list[Difference]:
        """Twice before it is believed: the database may have been put back meanwhile."""
        for _ in range(2):
            found = await self._page_once()
            if not found:
                break
        return found

    async def _page_once(self) -> list[Difference]:
        start = await asyncio.to_thread(asyncio.run, snapshot.read())
        hub = self._hub
        async with asyncio.timeout(STEP_S):
            while any(hub.heads.get(session, 0) < seq for session, seq in start.heads.items()):
                await asyncio.sleep(0.02)
        behind = {s: start.heads.get(s, 0) for s, seq in hub.heads.items() if seq > start.heads.get(s, 0)}
        many = sum(hub.heads[s] - seq for s, seq in behind.items()) > MOST_ROWS
        if many or not all(hub.ring.covers(s, seq) for s, seq in behind.items()):
            raise TimeoutError("the hub is too far ahead of the snapshot")
        rows = [row.text for row in hub.ring.after(behind, MOST_ROWS)]
        return await asyncio.to_thread(audit.page_differences, hub.state.copy(), start.state, rows, hub.now_us())

    async def _log(self, state: FleetState, now_us: int) -> list[Difference]:
        places = audit.pointers(state, now_us)
        wanted = dict(list(places.items())[self._place : self._place + MOST_POINTERS])
        self._place = self._place + MOST_POINTERS if self._place + MOST_POINTERS < len(places) else 0
        new = now_us - audit.DAY_US
        jobs = [key for key, view in state.views[Entity.JOB].items() if min(view.times.values(), default=0) > new]
        self._job += 1
        connection = await connect()
        try:
            ids = [[session for session, _ in wanted], [seq for _, seq in wanted]]
            found = audit.log_differences(wanted, await _rows(connection, _BY_PLACE, ids))
            if jobs:
                job = jobs[self._job % len(jobs)]
                found += audit.job_differences(state, job, await _rows(connection, _BY_JOB, [job]))
        finally:
            await connection.close()
        return found

    def _differing_gauges(self, state: FleetState, samples: Mapping[str, Any]) -> list[Difference]:
        """Those that have differed in several rounds."""
        found, differing = [], {}
        for session, live in samples.items():
            if session == SITE or not live.get("gauges") or state.get(Entity.SESSION, session).detail.get("source"):
                continue
            for one in audit.gauge_differences(state, session, live["sample_us"], live["gauges"]):
                key = (session, one.ours.partition(" ")[0])
                differing[key] = self._gauges.get(key, 0) + 1
                found += [one] if differing[key] >= audit.ROUNDS else []
        self._gauges = differing
        return found

    async def _tell(self, found: list[Difference], now_us: int) -> None:
        for one in found:
            log.error("[%s] %s", one.code, one.text)
            self._open[one] = now_us
        if any(one.code is Finding.PAGE for one in found):
            self._again()
        if found:
            connection = await connect()
            try:
                for one in found:
                    words = [one.code.value, one.entity, one.entity_id, one.ours, one.theirs, one.text]
                    await connection.execute(_RECORD, words)
            finally:
                await connection.close()


async def _rows(connection: psycopg.AsyncConnection[Any], query: LiteralString, values: list[Any]) -> list[Transition]:
    return [transition(record) for record in await (await connection.execute(query, values)).fetchall()]
