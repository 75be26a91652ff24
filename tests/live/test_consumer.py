"""The socket: who may open it, from where, and what ends it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore

from cuzk_web.asgi import application
from cuzk_web.live import consumer
from cuzk_web.live.hub import Hub
from cuzk_web.live.protocol import CloseCode
from tests.browser import make_people
from tests.postgres import Database

from .story import Story
from .waiting import until
from .writer import Writer

pytestmark = pytest.mark.postgres

Open = Callable[..., WebsocketCommunicator]
HOST = b"localhost:8000"


def cookie(name: str) -> bytes:
    """A logged-in browser's cookie."""
    user = User.objects.get(username=name)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return f"sessionid={session.session_key}".encode()


@pytest.fixture
async def connect(site: Database, live: Hub) -> AsyncIterator[Any]:
    """Opens sockets as a browser would; all are closed after the test."""
    await database_sync_to_async(make_people)(site)
    opened: list[WebsocketCommunicator] = []

    async def connect(name: str | None = "vera", origin: bytes | None = b"http://localhost:8000") -> Any:
        headers = [(b"host", HOST)] + ([(b"origin", origin)] if origin is not None else [])
        if name is not None:
            headers.append((b"cookie", await database_sync_to_async(cookie)(name)))
        socket = WebsocketCommunicator(application, "/ws/live", headers)
        opened.append(socket)
        accepted, _ = await socket.connect(timeout=5)
        return socket, accepted

    yield connect
    for socket in opened:
        if not socket.future.done():
            await socket.disconnect()


async def frames(socket: WebsocketCommunicator, enough: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Frames up to the first that is enough."""
    got: list[dict[str, Any]] = []
    while not got or not enough(got[-1]):
        got.append(json.loads(await socket.receive_from(timeout=5)))
    return got


async def close_code(socket: WebsocketCommunicator) -> int:
    while (message := await socket.receive_output(timeout=5))["type"] != "websocket.close":
        pass
    return int(message["code"])


@pytest.mark.parametrize("origin", [None, b"http://evil.example", b"http://localhost:3000", b"null", b"https:///",
                                    b"file://localhost:8000", b"http://localhost:8000.evil.example"])  # fmt: skip
async def test_pages_of_other_sites_are_refused_at_the_handshake(connect: Any, origin: bytes | None) -> None:
    _, accepted = await connect("vera", origin)
    assert not accepted


async def test_a_forged_host_is_refused_too(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "HOST", b"evil.example")
    _, accepted = await connect("vera", b"http://evil.example")
    assert not accepted


async def test_a_trusted_origin_is_accepted(connect: Any, settings: Any) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://proofs.example"]
    _, accepted = await connect("vera", b"https://proofs.example")
    assert accepted


async def test_a_stranger_is_told_to_log_in(connect: Any) -> None:
    socket, accepted = await connect(None)
    assert accepted and await close_code(socket) == CloseCode.NOT_LOGGED_IN


async def test_an_account_without_a_role_may_not_look(connect: Any) -> None:
    socket, accepted = await connect("sam")
    assert accepted and await close_code(socket) == CloseCode.NOT_ALLOWED


async def test_a_viewer_is_sent_nothing_before_the_cursor_and_then_everything(
    connect: Any, writer: Writer, story: Story
) -> None:
    socket, _ = await connect("vera")
    writer.write(story.take())
    assert await socket.receive_nothing(timeout=0.3)
    await socket.send_to(json.dumps({"since": {}}))
    got = await frames(socket, lambda frame: "rows" in frame)
    assert [row[1] for row in got[-1]["rows"]] == list(range(1, story.state.heads[story.session] + 1))
    assert [frame["n"] for frame in got] == list(range(1, len(got) + 1))
    assert all(frame["now_us"] >= frame["read_us"] > 0 for frame in got)


@pytest.mark.parametrize("text", ["{", '{"ack": 7}', '{"since": {"nobody": 1}}', '{"run": "rm"}'])
async def test_a_crafted_frame_ends_the_conversation(connect: Any, live: Hub, text: str) -> None:
    socket, _ = await connect("vera")
    await socket.send_to(text)
    assert await close_code(socket) == CloseCode.BAD_FRAME
    assert not live.viewers


async def test_a_second_cursor_on_a_socket_ends_the_conversation(connect: Any, live: Hub) -> None:
    socket, _ = await connect("vera")
    await socket.send_to('{"since": {}}')
    await frames(socket, lambda frame: frame["n"] >= 1)
    await socket.send_to('{"since": {}}')
    assert await close_code(socket) == CloseCode.BAD_FRAME
    assert not live.viewers


async def test_a_binary_frame_ends_it_too(connect: Any) -> None:
    socket, _ = await connect("vera")
    await socket.send_to(bytes_data=b"\x00")
    assert await close_code(socket) == CloseCode.BAD_FRAME


async def test_a_socket_does_not_outlive_its_login(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "RECHECK_S", 0.0)
    socket, _ = await connect("vera")
    await socket.send_to('{"since": {}}')
    await frames(socket, lambda frame: frame["n"] >= 1)
    await database_sync_to_async(SessionStore.get_model_class().objects.all().delete)()
    await socket.send_to('{"ack": 1}')
    assert await close_code(socket) == CloseCode.NOT_LOGGED_IN


async def test_a_viewer_who_leaves_is_forgotten(connect: Any, live: Hub) -> None:
    socket, _ = await connect("vera")
    await until(lambda: len(live.viewers) == 1)
    await socket.disconnect()
    await until(lambda: not live.viewers)


async def test_a_viewer_whose_socket_fails_is_forgotten(
    connect: Any, live: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise psycopg.OperationalError("the database is away")

    socket, _ = await connect("vera")
    await until(lambda: len(live.viewers) == 1)
    monkeypatch.setattr(live, "since", away)
    await socket.send_to('{"since": {}}')
    await until(socket.future.done)
    assert isinstance(socket.future.exception(), psycopg.OperationalError)
    assert not live.viewers
