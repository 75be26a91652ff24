"""Daphne for this site: says where it listens, fails loudly when it cannot, and tells open pages that it restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server
from twisted.internet import defer, reactor

from cuzk_web.submission.bodies import LazyBodies, streamed
from prover.notify import Notifier

from . import hub
from .protocol import CloseCode

FAREWELL_S = 1.0  # that open pages get to hear of a restart
STOP_S = 30.0  # the end of the process comes sooner


class SiteServer(LazyBodies, Server):  # type: ignore[misc]  # Daphne has no types
    """HTTP and WebSocket on one port. `run` returns after SIGTERM or SIGINT, or with `failure` saying why it ended."""

    def __init__(self, application: Any, host: str, port: int, on_ready: Callable[[str], None]) -> None:
        self.failure: str | None = None
        self._address = f"{host}:{port}"
        self._on_ready = on_ready
        self._notifier = Notifier()
        endpoints = build_endpoint_description_strings(host=host, port=port)
        super().__init__(streamed(application), endpoints, ready_callable=self._begin, server_name="cuzk")

    def run(self) -> None:
        """Serve until a signal, then end every task: one that is collected with the interpreter may crash it."""
        super().run()
        loop = self._loop
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())

    def listen_success(self, port: Any) -> None:
        """The port is ours."""
        super().listen_success(port)
        address = port.getHost()
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._on_ready(f"http://{host}:{address.port}/")
        self._notifier.ready()

    def listen_error(self, failure: Any) -> None:
        """The port is not to be had."""
        self.failure = f"cannot listen on {self._address}: {failure.getErrorMessage()}"
        super().listen_error(failure)

    def _begin(self) -> None:
        self._task(self._watch())

    async def _watch(self) -> None:
        """Begin to follow the log; without its hub a site shows nothing, so it ends with it."""
        following = hub.hub()
        following.on_turn = self._notifier.alive  # the loop that brings what pages show
        await following.failed.wait()
        assert following.failure is not None
        self.failure = f"{following.failure} [{following.failure.code}]"
        self.stop()

    def kill_all_applications(self) -> Any:
        """Daphne's way to end: open pages hear of it first, because their sockets go with their applications."""
        self._notifier.stopping(STOP_S)
        told = defer.Deferred.fromFuture(self._task(_stop()))
        return told.addCallback(lambda _: super(SiteServer, self).kill_all_applications())

    def _task(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._loop.create_task(job)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = reactor._asyncioEventloop
        return loop


async def _stop() -> None:
    """Tell open pages, and give their answers a moment: what the reactor has not sent when it ends is never sent."""
    for viewer in list(hub.hub().viewers):
        await viewer.close(CloseCode.RESTART)
    until = time.monotonic() + FAREWELL_S
    while hub.hub().viewers and time.monotonic() < until:
        await asyncio.sleep(0.01)
    await hub.close()
