"""Why a socket was closed reaches the browser, through the server that we run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page

from cuzk_web.live.protocol import CloseCode
from tests.browser import Site, login

pytestmark = pytest.mark.postgres

#: opens a socket of its own, and tells how it was closed
SOCKET = """opened => new Promise(done => {
    const socket = new WebSocket(`ws://${location.host}/ws/live`);
    socket.onopen = () => opened(socket);
    socket.onclose = event => done(event.code);
})"""


def closed(page: Page, frame: str | None = None) -> int:
    code: int = page.evaluate(f"frame => ({SOCKET})(socket => frame && socket.send(frame))", frame)
    return code


@pytest.mark.parametrize("frame", ["{", '{"since":{"x":1}}', '{"ack":-1}'])
def test_a_bad_frame_is_named(page: Page, served: Site, frame: str) -> None:
    login(page, served, "vera")
    assert closed(page, frame) == CloseCode.BAD_FRAME


def test_who_is_not_logged_in_is_told_so(page: Page, served: Site) -> None:
    page.goto(served.url)
    assert closed(page) == CloseCode.NOT_LOGGED_IN


def test_who_has_no_role_is_told_so(browser: Browser, served: Site) -> None:
    context = browser.new_context()
    page = context.new_page()  # its page is a 403, which a watched one would count as an error
    login(page, served, "sam")
    assert closed(page) == CloseCode.NOT_ALLOWED
    context.close()


def test_the_end_of_the_server_is_a_restart(page: Page, served: Site) -> None:
    login(page, served, "vera")
    page.forgive = re.compile("WebSocket|ERR_")  # type: ignore[attr-defined]
    served_one = """socket => { socket.onmessage = ready; socket.send('{"since":{}}'); }"""
    page.evaluate(f"() => new Promise(ready => {{ window.ended = ({SOCKET})({served_one}); }})")
    served.stop()
    assert page.evaluate("window.ended") == CloseCode.RESTART
