"""A prover's service over a real database: gRPC on a unix socket and on TCP, HTTP on a free port. No engine: the tests
make the moves of its session."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import CircuitShape
from prover.groth16.store import KeyStore
from prover.pipeline.allocator import DeviceInfo
from prover.pipeline.devices import Device
from prover.service.address import Address
from prover.service.desk import Desk
from prover.service.live import Live
from prover.service.meters import Meters
from prover.service.options import ServiceOptions
from prover.service.service import Service
from prover.stack.roles import DAEMON
from tests.journal.helpers import Prover
from tests.postgres import ROOT, Database

REQUESTS = ROOT / "tests/data/2k/requests"
CALL_S = 30.0


class Keys:
    """Stands for the keys of a prover: what it is asked for, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, CircuitShape]] = []
        self.loaded: set[CircuitShape] = set()
        self.error: Exception | None = None

    def preload(self, shape: CircuitShape) -> bool:
        self.asked.append(("preload", shape))
        if self.error is not None:
            raise self.error
        was_there = shape in self.loaded
        self.loaded.add(shape)
        return was_there

    def evict(self, shape: CircuitShape) -> int | None:
        self.asked.append(("evict", shape))
        if self.error is not None:
            raise self.error
        if shape not in self.loaded:
            return None
        self.loaded.remove(shape)
        return 123


@dataclass
class Served:
    """The service, the session that it shows, and ways to call it."""

    service: Service
    live: Live
    prover: Prover
    keys: Keys
    database: Database
    socket: Path
    channels: list[grpc.Channel] = field(default_factory=list)

    @property
    def tcp(self) -> Address:
        """Of gRPC."""
        return self.service.addresses[1]

    @property
    def http(self) -> Address:
        return self.service.addresses[-1]

    def channel(self, target: str | None = None, **options: int) -> grpc.Channel:
        made = grpc.insecure_channel(
            target or f"unix:{self.socket}",
            options=[("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1), *options.items()],
        )
        self.channels.append(made)
        return made

    def call(self, method: str, request: Any, channel: grpc.Channel | None = None, **more: Any) -> Any:
        """One call, of a message or of raw bytes; its answer. Raises grpc.RpcError."""
        channel = channel or (self.channels[0] if self.channels else self.channel())
        names = pb.DESCRIPTOR.services_by_name["ProvingEngine"].methods_by_name[method]
        answer = getattr(pb, names.output_type.name)
        stub = channel.unary_unary(
            f"/cuzk.v1.ProvingEngine/{method}",
            request_serializer=lambda value: value if isinstance(value, bytes) else value.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return stub(request, timeout=more.pop("timeout", CALL_S), **more)

    def refused(self, method: str, request: Any, **more: Any) -> tuple[grpc.StatusCode, str]:
        """The status and our code of a call that must fail."""
        with pytest.raises(grpc.RpcError) as failure:
            self.call(method, request, **more)
        trailers = dict(failure.value.trailing_metadata() or ())
        assert f"[{trailers['cuzk-code']}]" in failure.value.details()
        return failure.value.code(), trailers["cuzk-code"]


def message(kind: str = "window-post", **fields: Any) -> pb.SubmitProofRequest:
    """A valid request of a kind, under an id of its own."""
    found = pb.SubmitProofRequest.FromString(parse_json((REQUESTS / f"{kind}.json").read_bytes()).canonical)
    found.request_id = f"test-{uuid.uuid4()}"
    for name, value in fields.items():
        setattr(found, name, value)
    return found


@contextmanager
def serving(database: Database, folder: Path, *, local_keys: bool = True, **more: Any) -> Iterator[Served]:
    """The service beside a session. `more`: of `ServiceOptions`."""
    devices = [Device(DeviceInfo("prover-a", 0, "device 0", "cpu", 1 << 30), None)]
    live = Live("prover-a", "test", devices, Meters())
    keys = Keys()
    with tempfile.TemporaryDirectory(prefix="cuzk-") as short:  # a socket's path is short
        socket = Path(short) / "cuzk.sock"
        listen = more.pop("listen", (Address(path=socket), Address(host="127.0.0.1")))
        options = ServiceOptions(listen, more.pop("status_listen", Address(host="127.0.0.1")), **more)
        desk = Desk(database.url(DAEMON), KeyStore(folder / "keys"), makes_keys=True, allow_local_keys=local_keys)
        service = Service(options, live, database.url(DAEMON), keys, desk)  # type: ignore[arg-type]
        service.start()
        prover = Prover(database, folder / "spool", sinks=[live.meters.sink])
        live.use(prover.tracker, prover.journal)
        served = Served(service, live, prover, keys, database, socket)
        try:
            yield served
        finally:
            for channel in served.channels:
                channel.close()
            prover.close()
            service.stop()


@pytest.fixture
def served(database: Database, tmp_path: Path) -> Iterator[Served]:
    with serving(database, tmp_path) as served:
        yield served
