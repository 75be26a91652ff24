"""A message goes to a public address or an allowed one, to the address that was judged, and nowhere else."""

from __future__ import annotations

import socket
import time
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest

from cuzk_web.alerts import outbound
from cuzk_web.alerts.outbound import AddressRefused, ChannelInvalid, ChannelRefused, ChannelUnreachable

from .receiver import Receiver

LOOPBACK = [ip_network("127.0.0.0/8")]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "198.18.0.1", "192.0.2.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1",
        "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a00:1::1",
        "2001:0:0:0:0:0:80ff:fffe", "2001:db8::1", "nonsense", "",
    ],
)  # fmt: skip
def test_private_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert not outbound.allowed(address, [])


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert outbound.allowed(address, [])


def test_networks_are_allowed_by_name_and_no_more() -> None:
    networks = [ip_network("10.1.0.0/16"), ip_network("fd00::/8")]
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd12::1"):
        assert outbound.allowed(address, networks)
    for address in ("10.2.0.1", "127.0.0.1", "fc00::1"):
        assert not outbound.allowed(address, networks)


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://a/", "file:///etc/passwd", "http:///x", "http://a:0/", "http://a:99999/", "http://a:x/", "//a/b",
        "http://u:p@a/", "http://u@a/", "http://a/#f", "http://a/ b", "http://a/\r\nX: y", "http://a\\@b/",
        "http://ä/", "http://[::1/", "javascript:alert(1)", "http://a/" + "x" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ChannelInvalid) as refused:
        outbound.check(url)
    assert len(url) < 4 or url not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "http://localhost:1/", "http://[::1]:1/", "http://2130706433/"]
)
def test_nothing_is_sent_to_a_private_address(url: str, settings: Any) -> None:
    settings.ALERT_NETWORKS = []
    with pytest.raises(AddressRefused):
        outbound.post(url, b"{}", {})


def test_one_private_address_among_a_hosts_is_one_too_many(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ALERT_NETWORKS = []
    found = [(0, 0, 0, "", (address, 80)) for address in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(AddressRefused):
        outbound.resolve(urlsplit("http://host/"))


def test_the_address_that_was_judged_is_the_one_that_is_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that answers otherwise the second time leads nowhere else: it is asked for once."""
    asked: list[str] = []

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "10.9.9.9", port))]

    real = socket.create_connection
    made: list[Any] = []

    def connect(address: Any, *more: Any) -> socket.socket:
        made.append(address)
        monkeypatch.undo()
        return real(address, *more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    url = receiver.url.replace("127.0.0.1", "rebinding.example")
    outbound.post(url, b"{}", {"Content-Type": "application/json"})
    assert asked == ["rebinding.example"] and made[0][0] == "127.0.0.1"
    assert receiver.received[0].headers["Host"].startswith("rebinding.example:")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 500])
def test_an_answer_that_is_no_success_is_an_error_and_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    with pytest.raises(ChannelRefused, match=f"it answered {status}") as refused:
        outbound.post(receiver.url, b"{}", {})
    assert len(receiver.received) == 1 and "secret" not in str(refused.value)


def test_who_answers_a_byte_now_and_then_keeps_nobody_waiting(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "WHOLE_S", 0.4)

    def drip(handler: Any) -> None:
        with handler.connection:
            try:
                for _ in range(200):
                    handler.connection.sendall(b"H")
                    time.sleep(0.05)
            except OSError:
                pass

    receiver.answers = [drip]
    started = time.monotonic()
    with pytest.raises(ChannelUnreachable, match="does not answer in time"):
        outbound.post(receiver.url, b"{}", {})
    assert time.monotonic() - started < 2


def test_a_great_answer_is_not_read(receiver: Receiver) -> None:
    def pour(handler: Any) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + bytes(100_000))
        except OSError:
            pass

    receiver.answers = [pour]
    outbound.post(receiver.url, b"{}", {})


def test_a_closed_port_and_an_unknown_name_are_told(settings: Any) -> None:
    settings.ALERT_NETWORKS = LOOPBACK
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ChannelUnreachable, match="refused"):
        outbound.post(f"http://127.0.0.1:{port}/s", b"{}", {})
    with pytest.raises(ChannelUnreachable, match="cannot be resolved"):
        outbound.post("http://no-such-host.invalid/s", b"{}", {})
