"""Where the service may listen, and with what: tokens, TLS, unix sockets that were left behind."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import grpc
import pytest

from prover import config
from prover.config import ConfigurationInvalid
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.service.address import Address, parse, parse_all
from prover.service.errors import ListenFailed, ListenInsecure
from prover.service.options import Tls, options
from tests.postgres import Database

from .conftest import serving

TOKEN = "0123456789abcdef"


def configured(*flags: str) -> config.Daemon:
    return config.load(None, {}, [f"daemon.{flag}" for flag in flags]).daemon


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """token, cert.pem and key.pem."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "token").write_text(f"{TOKEN}\n")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


def test_addresses() -> None:
    found = parse_all("unix:///run/curio/cuzk.sock, 127.0.0.1:9820,[::1]:1,localhost:0")
    assert [str(each) for each in found] == [
        "unix:///run/curio/cuzk.sock", "127.0.0.1:9820", "[::1]:1", "localhost:0",
    ]  # fmt: skip
    assert all(address.is_local for address in found)
    assert not any(parse(text).is_local for text in ("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "prover.lan:1"))
    for text in ("9820", ":9820", "::1:9820", "x:", "x:-1", "x:65536", "unix:relative", f"unix:///{'x' * 107}", "x:²"):
        with pytest.raises(ValueError):
            parse(text)


@pytest.mark.parametrize("key", ["listen", "status_listen"])
def test_what_others_reach_needs_a_token_and_tls(files: Path, key: str) -> None:
    token, tls = f"token_file={files}/token", (f"tls_certificate={files}/cert.pem", f"tls_key={files}/key.pem")
    for missing, given in (("a token", tls), ("TLS", (token,)), ("a token.*and TLS", ())):
        with pytest.raises(ListenInsecure, match=missing) as caught:
            options(configured(f"{key}=0.0.0.0:9820", *given))
        assert caught.value.field == f"daemon.{key}"
    assert options(configured(f"{key}=0.0.0.0:9820", token, *tls)).token == TOKEN
    assert options(configured(f"{key}=0.0.0.0:9820", "allow_insecure=true")).token is None
    assert options(configured(f"{key}=127.0.0.1:9820")).tls is None


def test_files_that_cannot_be_used_are_named(files: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("abc")
    for flag, field in (
        (f"token_file={tmp_path}/none", "daemon.token_file"), (f"token_file={short}", "daemon.token_file"),
        (f"tls_key={files}/key.pem", "daemon.tls_certificate"), (f"tls_certificate={files}/cert.pem", "daemon.tls_key"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationInvalid) as caught:
            options(configured(flag))
        assert caught.value.field == field


@pytest.mark.postgres
def test_tls_and_a_token(database: Database, tmp_path: Path, files: Path) -> None:
    certificate, key = (files / name for name in ("cert.pem", "key.pem"))
    tls = Tls(certificate.read_bytes(), key.read_bytes(), certificate, key)
    with serving(database, tmp_path, tls=tls, token=TOKEN) as served:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        channel = grpc.secure_channel(f"localhost:{served.tcp.port}", credentials)
        served.channels.append(channel)
        ask = pb.GetStatusRequest()
        for given in ((), (("authorization", "Bearer wrong"),), (("authorization", TOKEN),)):
            refused = served.refused("GetStatus", ask, channel=channel, metadata=given)
            assert refused == (grpc.StatusCode.UNAUTHENTICATED, "not_authenticated")
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        assert len(served.call("GetStatus", ask, channel=channel, metadata=metadata).gpus) == 1
        plain = served.channel(f"127.0.0.1:{served.tcp.port}")
        with pytest.raises(grpc.RpcError) as failure:
            served.call("GetStatus", ask, channel=plain, metadata=metadata, timeout=5)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert len(served.call("GetStatus", ask, channel=served.channel()).gpus) == 1  # the socket's mode is its rule
        url = f"https://localhost:{served.http.port}/status"
        asked = subprocess.run(["curl", "-s", "--cacert", certificate, url], capture_output=True, check=True)
        assert b'"gpu_workers"' in asked.stdout


@pytest.mark.postgres
def test_sockets_and_ports_that_are_taken(database: Database, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    with serving(database, tmp_path, listen=(Address(path=tmp_path / "s"),)) as served:
        assert served.call("GetStatus", pb.GetStatusRequest(), channel=served.channel(f"unix:{tmp_path}/s"))
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o660
        (tmp_path / "file").touch()
        taken = (Address(path=tmp_path / "s"), Address(path=tmp_path / "file"), served.http)
        for address in taken:
            with pytest.raises(ListenFailed), serving(database, tmp_path / "other", listen=(address,)):
                pass
        with pytest.raises(ListenFailed), serving(database, tmp_path / "other", status_listen=served.http):
            pass
    assert (tmp_path / "file").exists()
