"""Who waits for which job. One connection hears of all ends, however many wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg
import structlog

from prover.journal.connection import connect_async

from .errors import ServiceDraining

LOOK_EVERY_S = 1.0  # also when nobody notifies
PAUSE_S = 0.05  # between two looks at most so often: provers notify with each batch of moves
RETRY_S = 1.0

_ENDED = "SELECT id::text FROM job WHERE id = ANY(%s::uuid[]) AND ended_at IS NOT NULL"

log = structlog.get_logger(__name__)


class Waits:
    """Of one event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiting: Counter[str] = Counter()
        self._ended: dict[str, asyncio.Future[None]] = {}
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Look no more: who waits is told to ask another prover, or this one later."""
        for future in self._ended.values():
            if not future.done():
                future.set_exception(
                    ServiceDraining("the prover stops; the job goes on elsewhere, or at its next start")
                )
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def until_ended(self, job: str, timeout_s: float | None) -> bool:
        """Wait until a job has ended; False when it had not in time. `job`: its own id. Raises ServiceDraining."""
        future = self._ended.setdefault(job, asyncio.get_running_loop().create_future())
        self._waiting[job] += 1
        self._wanted.set()
        try:
            await asyncio.wait_for(asyncio.shield(future), timeout_s)
            return True
        except TimeoutError:
            return False
        finally:
            self._waiting[job] -= 1
            if not self._waiting[job]:
                del self._waiting[job]
                if self._ended.get(job) is future:
                    del self._ended[job]

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                async with await connect_async(self._url, "cuzk waits") as connection:
                    await connection.execute("LISTEN cuzk")
                    while self._ended:
                        await self._look(connection)
                        await self._pause(connection)
                self._wanted.clear()
                if self._ended:  # came while the connection was closed
                    self._wanted.set()
            except psycopg.Error as error:
                log.warning("waiting for jobs: the database does not answer", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _look(self, connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = await connection.execute(_ENDED, [list(self._ended)])
        ended = [str(row[0]) for row in await cursor.fetchall()]
        for job in ended:
            future = self._ended.pop(job, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def _pause(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Until somebody notifies, at least a moment and at most until the next look is due."""
        async for _ in connection.notifies(timeout=LOOK_EVERY_S, stop_after=1):
            pass
        await asyncio.sleep(PAUSE_S)
