"""Request bodies that never lie in memory whole.

Daphne keeps a body in a file and then puts all of it, in pieces, into the application's queue at once; Twisted reads
a form's body whole before that. With what is here a piece is read when the application asks for it, and what
exceeds the limit is thrown away as it arrives: `UploadLimitMiddleware` then answers 413.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from typing import IO, Any

from daphne.http_protocol import HTTPFactory, WebRequest

from .uploads import body_limit

PIECE = 64 * 1024  # bytes
CONTENT = "cuzk.content"  # key in the scope

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class BoundedRequest(WebRequest):  # type: ignore[misc]  # Daphne has no types
    """A request whose body is at most `body_limit()` long."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parsePOSTFormSubmission = False  # Twisted's: it would read the whole body
        self._room = body_limit()

    def gotLength(self, length: int | None) -> None:
        """Called with the announced length, or None when none was announced."""
        super().gotLength(length)
        if length is not None and length > self._room:
            self._room = 0

    def handleContentChunk(self, data: bytes) -> None:
        """Keep what there is room for."""
        super().handleContentChunk(data[: self._room])
        self._room -= min(self._room, len(data))


class BoundedFactory(HTTPFactory):  # type: ignore[misc]  # Daphne has no types
    """Connections whose requests are bounded."""

    def buildProtocol(self, address: Any) -> Any:
        """As Daphne's, with our class of request."""
        protocol = super().buildProtocol(address)
        protocol.requestFactory = BoundedRequest
        return protocol


class Emptied(io.BytesIO):
    """Stands where the content was, so that Daphne queues nothing of it; closing it closes the content."""

    def __init__(self, content: IO[bytes]) -> None:
        super().__init__()
        self._content = content

    def close(self) -> None:
        """When the request has been answered, or the client is gone."""
        self._content.close()
        super().close()


class LazyBodies:
    """Mix into `daphne.server.Server`, before it; its application must be `streamed`."""

    _factory: HTTPFactory

    @property
    def http_factory(self) -> HTTPFactory:
        """What makes a protocol for a connection."""
        return self._factory

    @http_factory.setter
    def http_factory(self, _: HTTPFactory) -> None:
        """Daphne sets its own as it starts; ours takes its place."""
        self._factory = BoundedFactory(self)

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        """As Daphne's, but the content goes to the application as it is."""
        if scope["type"] == "http":
            scope[CONTENT], protocol.content = protocol.content, Emptied(protocol.content)
        return super().create_application(protocol, scope)  # type: ignore[misc]


def streamed(application: Application) -> Application:
    """An ASGI application that reads the body of a request piece by piece from the file in which Daphne keeps it."""

    async def reading(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        content = scope.pop(CONTENT, None)
        await application(scope, receive if content is None else _Pieces(content, receive).next, send)

    return reading


class _Pieces:
    def __init__(self, content: IO[bytes], then: Receive) -> None:
        self._content: IO[bytes] | None = content
        self._then = then

    async def next(self) -> dict[str, Any]:
        if self._content is None:
            return await self._then()
        piece = b"" if self._content.closed else self._content.read(PIECE)
        if len(piece) < PIECE:
            self._content = None
            await self._then()  # the empty body that Daphne sent in its place
        return {"type": "http.request", "body": piece, "more_body": self._content is not None}
