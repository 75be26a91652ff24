"""The service of a prover: its gRPC and HTTP servers, in one thread with an event loop of its own.

It lives as long as the process, over all sessions: while the database is away it says so, and while the prover drains
it still answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from http import HTTPStatus

import structlog

from . import grpc_server
from .address import Address
from .desk import Desk
from .errors import ListenFailed
from .exposition import CONTENT_TYPE, exposition, register
from .http_server import Answer, Connection, Page, Pages, Rules, json_answer, text_answer
from .key_control import KeyControl
from .live import Live
from .options import ServiceOptions, Tls
from .proving_engine import ProvingEngine
from .waits import Waits

START_S = 30.0
GRACE_S = 2.0  # for calls under way when the process ends

log = structlog.get_logger(__name__)


class Service:
    """`start` returns once all addresses are bound. One for a process."""

    def __init__(self, options: ServiceOptions, live: Live, url: str, keys: KeyControl, desk: Desk) -> None:
        self.addresses: list[Address] = []  # with the ports that were given
        self._options, self._live, self._url, self._keys, self._desk = options, live, url, keys, desk
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)
        register(live)

    def start(self) -> None:
        """Raises ListenFailed."""
        if not self._options.listen and self._options.status_listen is None:
            return
        self._thread.start()
        self._started.wait(START_S)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Who waits is told that the prover stops."""
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(GRACE_S + 3)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            if self._started.is_set():
                log.exception("the service ended")
        self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        waits = Waits(self._url)
        engine = ProvingEngine(self._live, self._desk, waits, self._keys)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(engine.close)
            for address in self._options.listen:
                server = self._grpc(engine, address)
                await server.start()
                stack.push_async_callback(server.stop, GRACE_S)
            if self._options.status_listen is not None:
                await self._http(stack, self._options.status_listen)
            waits.start()
            stack.push_async_callback(waits.stop)
            for bound in self.addresses:
                log.info("service listens", address=str(bound))
            self._started.set()
            await self._stopping.wait()

    def _grpc(self, engine: ProvingEngine, address: Address) -> grpc_server.Server:
        token = None if address.path is not None else self._options.token
        server = grpc_server.make_server(engine, self._live.meters, self._options.max_message, token)
        self.addresses.append(grpc_server.listen(server, address, self._options.tls))
        return server

    async def _http(self, stack: contextlib.AsyncExitStack, address: Address) -> None:
        pages = Pages(_pages(self._live), Rules(address.host, self._options.token, self._options.status_origin))
        open_: dict[Connection, None] = {}
        try:
            server = await asyncio.get_running_loop().create_server(
                lambda: Connection(pages, open_), address.host, address.port, ssl=_context(self._options.tls)
            )
        except OSError as error:
            raise ListenFailed(f"{address}: {error.strerror}", field="daemon.status_listen") from error
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        self.addresses.append(Address(host=address.host, port=server.sockets[0].getsockname()[1]))


def _pages(live: Live) -> dict[str, Page]:
    def ready() -> Answer:
        reasons = live.reasons()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return json_answer({"ready": not reasons, "reasons": reasons}, status)

    answers: dict[str, Callable[[], Answer]] = {
        "/status": lambda: json_answer(live.status()),
        "/metrics": lambda: Answer(exposition(live), CONTENT_TYPE),
    }
    return {path: Page(answer) for path, answer in answers.items()} | {
        "/livez": Page(lambda: text_answer("ok"), is_open=True), "/readyz": Page(ready, is_open=True),
    }  # fmt: skip


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context
