"""The gRPC servers: one for each address, with its own rules of who may call.

A message is read only once its caller is known, and within a time: a caller that is slow, or that has gone without a
word, keeps no place for ever. Malformed messages are refused as our own errors, like everything else that is wrong.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import structlog
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection, reflection_pb2

from prover.filecoin.proto import cuzk_pb2 as pb

from .address import Address
from .codes import CODE_KEY, known, status_of, text_of
from .errors import ListenFailed, NotAuthenticated, RequestIncomplete
from .meters import Meters
from .options import Tls
from .proving_engine import Call, ProvingEngine

SERVICE = pb.DESCRIPTOR.services_by_name["ProvingEngine"]
DEADLINE_KEY = "cuzk-deadline"
RECEIVE_S = 120.0  # for a whole message: 128 MiB at 9 Mbit/s
MAX_CALLS = 2048  # at a time, those that wait for a proof among them
SOCKET_MODE = 0o660

Server = Any  # gRPC has no types
Method = Callable[[bytes, Call], Awaitable[Message]]
log = structlog.get_logger(__name__)


def make_server(engine: ProvingEngine, meters: Meters, max_message: int, token: str | None) -> Server:
    """A server that listens nowhere yet. `token`: callers need it."""
    server = grpc.aio.server(
        interceptors=[] if token is None else [_Authentication(token)],
        options=_options(max_message),
        maximum_concurrent_rpcs=MAX_CALLS,
    )
    handlers = {name: _handler(name, method, meters) for name, method in _methods(engine).items()}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)])
    names = [SERVICE.full_name, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server, pool=described())
    return server


def described() -> DescriptorPool:
    """What reflection tells: our .proto with the JSON names of its fields, which generated code does not carry.

    Without them grpcurl prints other names by reflection than from the file.
    """
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        fields = pb.DESCRIPTOR.message_types_by_name[message.name].fields_by_name
        for field in message.field:
            field.json_name = fields[field.name].camelcase_name
    pool = DescriptorPool()
    pool.Add(file)
    pool.AddSerializedFile(reflection_pb2.DESCRIPTOR.serialized_pb)
    return pool


def listen(server: Server, address: Address, tls: Tls | None) -> Address:
    """Bind it; the address with the port that it got. Raises ListenFailed."""
    if address.path is not None:
        _clear(address.path)
        _bound(server.add_insecure_port, f"unix:{address.path}", address)
        os.chmod(address.path, SOCKET_MODE)
        return address
    if tls is None:
        port = _bound(server.add_insecure_port, str(address), address)
    else:
        credentials = grpc.ssl_server_credentials([(tls.key, tls.certificate)])
        port = _bound(lambda target: server.add_secure_port(target, credentials), str(address), address)
    return Address(host=address.host, port=port)


def _options(max_message: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message),
        ("grpc.max_send_message_length", max_message),
        ("grpc.max_concurrent_streams", 256),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.so_reuseport", 0),  # a second server on the address is an error
        ("grpc.keepalive_time_ms", 30_000),  # a peer that has gone is found within 40 s
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 0),  # clients may ask too
        ("grpc.server_handshake_timeout_ms", 10_000),
    ]


def _methods(engine: ProvingEngine) -> Mapping[str, Method]:
    return {
        "SubmitProof": engine.submit_proof, "AwaitProof": engine.await_proof, "Prove": engine.prove,
        "CancelProof": engine.cancel_proof, "GetStatus": engine.get_status, "GetMetrics": engine.get_metrics,
        "PreloadSRS": engine.preload_srs, "EvictSRS": engine.evict_srs,
    }  # fmt: skip


def _handler(name: str, method: Method, meters: Meters) -> Any:
    """Of a unary method. It is served as a stream of one message, because only of those the time to read is ours."""

    async def handle(_messages: Any, context: Any) -> bytes:
        try:
            data = await _read(context)
            answer = await method(data, Call(_metadata(context).get(DEADLINE_KEY)))
        except Exception as error:
            await _abort(context, name, error, meters)
            raise
        meters.answered(name, "OK")
        made: bytes = answer.SerializeToString()
        return made

    return grpc.stream_unary_rpc_method_handler(handle)


async def _read(context: Any) -> bytes:
    try:
        data = await asyncio.wait_for(context.read(), RECEIVE_S)
    except TimeoutError:
        raise RequestIncomplete(f"the message was not complete after {RECEIVE_S:.0f} s") from None
    if data is grpc.aio.EOF:
        raise RequestIncomplete("the call brought no message")
    return bytes(data)


async def _abort(context: Any, name: str, error: Exception, meters: Meters) -> None:
    """Tell the client. Raises gRPC's own exception, which ends the call."""
    if isinstance(error, grpc.aio.AbortError):
        return
    told = known(error)
    if told is not error:
        log.error("call failed", method=name, exc_info=error)
    code = status_of(told)
    meters.answered(name, code.name)
    await context.abort(code, text_of(told), ((CODE_KEY, told.code),))


def _metadata(context: Any) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


class _Authentication(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Refuses calls without the token, before their message is read."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """The method's handler, or one that refuses."""
        for key, value in details.invocation_metadata or ():
            given = value.encode() if isinstance(value, str) else value
            if key == "authorization" and hmac.compare_digest(given, self._expected):
                return await continuation(details)
        return grpc.stream_stream_rpc_method_handler(_refuse)


async def _refuse(_messages: Any, context: Any) -> None:
    error = NotAuthenticated("the metadata `authorization: Bearer TOKEN` is missing or wrong")
    await context.abort(status_of(error), text_of(error), ((CODE_KEY, error.code),))


def _bound(bind: Callable[[str], int], target: str, address: Address) -> int:
    try:
        port = bind(target)
    except RuntimeError as error:
        raise ListenFailed(f"{address}: in use, or not allowed") from error
    if not port:
        raise ListenFailed(f"{address}: in use, or not allowed")
    return port


def _clear(path: Path) -> None:
    """Remove a socket that a dead process left. Raises ListenFailed for one that answers, and for any other file."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenFailed(f"unix://{path}: a file that is no socket is there")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            if probe.connect_ex(str(path)) == 0:
                raise ListenFailed(f"unix://{path}: another process listens there")
        path.unlink()
