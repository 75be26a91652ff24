"""The HTTP side: GET /status, /metrics, /livez and /readyz, each by its exact path; one answer a connection.

Connections are the event loop's, so that one that is slow or half open costs no thread; it is closed after a few
seconds, or when others need its place. The standard library reads the requests and writes the answers.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import cast

import structlog

from .address import is_loopback

REQUEST_S = 5.0  # for a whole request, and for the answer to be taken
MAX_REQUEST = 8 << 10  # bytes of a request's head
MAX_CONNECTIONS = 256

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page gives."""

    body: bytes
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """In the order that the value has."""
    return Answer(json.dumps(value).encode(), status=status)


def text_answer(text: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Plain text."""
    return Answer(f"{text}\n".encode(), "text/plain; charset=utf-8", status)


@dataclass(frozen=True, slots=True)
class Page:
    """What answers a path. `is_open`: it tells nothing that a stranger may not know, so it needs no token."""

    answer: Callable[[], Answer]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may ask. `host` is the one that the server listens on; `origin` may read /status from another site."""

    host: str
    token: str | None = None
    origin: str = ""

    def refusal(self, exchange: Exchange, page: Page) -> Answer | None:
        """Why a request is not answered; None when it is.

        A token is enough from anywhere. Without one, the name by which the server was asked must be this machine's own:
        a page of another site that a browser was made to fetch from here comes with its own.
        """
        if self.token is not None and hmac.compare_digest(exchange.credentials, f"Bearer {self.token}".encode()):
            return None
        if not self._is_own_name(exchange):
            return text_answer("unknown host", HTTPStatus.MISDIRECTED_REQUEST)
        if page.is_open or self.token is None or is_loopback(exchange.peer):
            return None
        return text_answer("the header `Authorization: Bearer TOKEN` is missing or wrong", HTTPStatus.UNAUTHORIZED)

    def _is_own_name(self, exchange: Exchange) -> bool:
        name = exchange.host
        if name in (self.host, exchange.own_address) or name == socket.gethostname():
            return True
        return is_loopback(name) and is_loopback(exchange.peer)


class Exchange(BaseHTTPRequestHandler):
    """One request, whole in memory, and its answer."""

    server_version = "cuzk"
    sys_version = ""

    def __init__(self, request: bytes, peer: str, own_address: str) -> None:
        self.peer, self.own_address = peer, own_address
        self.client_address = (peer, 0)
        self.rfile, self.wfile = BytesIO(request), BytesIO()
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(MAX_REQUEST + 1)
        self.is_valid = self.parse_request()

    @property
    def written(self) -> bytes:
        """The answer."""
        return cast(BytesIO, self.wfile).getvalue()

    @property
    def credentials(self) -> bytes:
        """The header Authorization."""
        return str(self.headers.get("Authorization", "")).encode(errors="replace")

    @property
    def host(self) -> str:
        """The name that the client used, without its port; empty when there is not exactly one."""
        found = self.headers.get_all("Host") or []
        name = found[0].strip().lower() if len(found) == 1 else ""
        if name.startswith("["):
            return name[1:].partition("]")[0]
        return name.rpartition(":")[0] if ":" in name else name

    def answer(self, answer: Answer, origin: str) -> None:
        """Write it."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if origin:
            self.send_header("Access-Control-Allow-Origin", origin)
        if answer.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: who asks every half second would fill the log."""


class Pages:
    """Answers requests. Each page is made at once, in the event loop."""

    def __init__(self, pages: Mapping[str, Page], rules: Rules) -> None:
        self._pages, self._rules = pages, rules

    def respond(self, request: bytes, peer: str, own_address: str) -> bytes:
        """The bytes of the answer to the bytes of a request's head."""
        exchange = Exchange(request, peer, own_address)
        if exchange.is_valid:
            exchange.answer(self._answer(exchange), self._rules.origin)
        return exchange.written

    def _answer(self, exchange: Exchange) -> Answer:
        page = self._pages.get(exchange.path.partition("?")[0])
        if page is None:
            return text_answer("not found", HTTPStatus.NOT_FOUND)
        if exchange.command not in ("GET", "HEAD"):
            return text_answer("only GET and HEAD", HTTPStatus.METHOD_NOT_ALLOWED)
        refusal = self._rules.refusal(exchange, page)
        return refusal or _made(page)


def _made(page: Page) -> Answer:
    try:
        return page.answer()
    except Exception:
        log.exception("a page could not be made")
        return json_answer({"error": "internal_error"}, HTTPStatus.INTERNAL_SERVER_ERROR)


class Connection(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, pages: Pages, others: dict[Connection, None]) -> None:
        self._pages, self._others = pages, others  # the open ones, the oldest first
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the place of the oldest one when there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self.abort)
        if len(self._others) >= MAX_CONNECTIONS:
            next(iter(self._others)).abort()
        self._others[self] = None

    def connection_lost(self, _error: Exception | None) -> None:
        """Its place is free."""
        self._others.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answers once the head is whole; a request has no body."""
        if self._transport is None or self._transport.is_closing():
            return
        self._received += data
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end or len(self._received) > MAX_REQUEST:
            peer, own = (self._name(which) for which in ("peername", "sockname"))
            self._transport.write(self._pages.respond(head[:MAX_REQUEST] + b"\r\n\r\n", peer, own))
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self._others.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def _name(self, which: str) -> str:
        assert self._transport is not None
        name = self._transport.get_extra_info(which)
        return _plain(str(name[0])) if name else ""


def _plain(address: str) -> str:
    """127.0.0.1 for ::ffff:127.0.0.1, as which a socket for both families shows it."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
    return address
