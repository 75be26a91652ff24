"""The real kind on the tiny circuit (one sector, one challenge): through the engine, from vanilla proof to delivery."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import structlog

from prover import jaxconf
from prover.algebra import chunks, kernels, table
from prover.algebra.domains import DomainTooLarge
from prover.algebra.mesh import DeviceMesh
from prover.errors import InvalidInput
from prover.filecoin.errors import MerklePathMismatch
from prover.filecoin.post import PostInstance, PostPartition
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import GIB, ProofKind, circuit_shape
from prover.groth16.errors import KeyFileDamaged, KeyNotFound
from prover.groth16.store import KeyStore
from prover.groth16.verifier import PreparedKey
from prover.pipeline.device_memory import bound_chunks
from prover.pipeline.devices import Device, DeviceMissing, DevicesUneven, Observation, discover
from prover.pipeline.filecoin import FilecoinKind, KindSettings
from prover.pipeline.kinds import DeviceFailed, ProofRefused
from prover.pipeline.single_flight import SingleFlight
from prover.pipeline.sources import ClaimedJob, JobInfo
from prover.states import Entity, Holding
from tests.pipeline.controlled import Rig

DATA = Path(__file__).parents[1] / "data" / "2k"
TABLES = 1 << 22
ROOM = 450_000  # bytes: the buckets of a set of the tiny circuit's sums, and not all bases of one


def request(kind: str = "window-post") -> bytes:
    """The sample's request as it lies in the database."""
    return parse_json((DATA / "requests" / f"{kind}.json").read_bytes()).canonical


class TinyKind(FilecoinKind):
    """Of each partition its first sector and challenge: the circuit of tiny.params. All else is the real kind."""

    def load(self, request: bytes) -> Sequence[PostPartition]:
        return [tiny(partition) for partition in super().load(request)]


def tiny(partition: PostPartition) -> PostPartition:
    sector = partition.instance.sectors[0]
    return PostPartition(
        index=partition.index,
        shape=replace(partition.shape, sectors=1, challenges=1),
        instance=PostInstance((replace(sector, paths=sector.paths[:1]),)),
        public_inputs=partition.public_inputs[:2],
    )


@pytest.fixture(scope="module")
def kind(tmp_path_factory: pytest.TempPathFactory) -> TinyKind:
    folder = tmp_path_factory.mktemp("keys")
    shape = parse_json((DATA / "requests" / "window-post.json").read_bytes()).shape
    tiny_shape = replace(shape, sectors=1, challenges=1)
    for suffix in ("params", "vk"):
        shutil.copy(DATA / f"tiny.{suffix}", folder / f"{tiny_shape.key_name}.{suffix}")
    # `load` looks for the key of the request's own circuit
    shutil.copy(DATA / "tiny.params", folder / f"{shape.key_name}.params")
    settings = KindSettings(KeyStore(folder), tmp_path_factory.mktemp("circuits"), table_bytes=TABLES)
    return TinyKind(ProofKind.WINDOW_POST, settings)


@pytest.mark.parametrize(
    "options", [{}, {"split": False}, {"pipeline": False}], ids=["split", "synchronous", "monolithic"]
)
def test_a_real_proof_goes_through_the_engine(kind: TinyKind, options: dict[str, bool]) -> None:
    devices = discover("prover", jaxconf.devices("cpu"), [0, 1])
    with Rig(devices=devices, kinds={"window-post": kind}, **options) as rig:
        for n in range(3):
            rig.source.jobs.append(ClaimedJob(JobInfo(f"job{n}", "window-post", 1, number=n), request()))
        rig.engine.wake()
        for n in range(3):
            rig.await_job(f"job{n}", "done", patience_s=200)
    work = kind.load(request())[0]
    vk, inputs = PreparedKey(kind._settings.keys.verifying_key(work.shape.key_name)), work.public_inputs
    proofs = [rig.results.deliveries[f"job{n}"] for n in range(3)]
    assert all(len(delivered) == 1 and vk.verify(inputs, delivered[0]) for delivered in proofs)
    assert len({delivered[0] for delivered in proofs}) == 3, "r and s are fresh"
    assert not rig.anomalies and rig.view(Entity.JOB, "job0").detail["local_keys"] is False


def test_a_group_of_devices_is_one_device_to_the_workers(kind: TinyKind) -> None:
    truth: list[Observation] = []
    devices = discover("prover", jaxconf.devices("cpu"), [0, 1], truth.append, per_proof=2)
    with Rig(devices=devices, kinds={"window-post": kind}) as rig:
        for n in range(2):
            rig.source.jobs.append(ClaimedJob(JobInfo(f"job{n}", "window-post", 1, number=n), request()))
        rig.engine.wake()
        for n in range(2):
            rig.await_job(f"job{n}", "done", patience_s=200)
        assert rig.view(Entity.DEVICE, "prover/0").detail["name"] == "cpu (2 as one)"
        assert {rig.view(Entity.WORKER, f"prover/0/{sub}").state for sub in range(2)} == {"online"}
    assert not rig.anomalies
    held = [seen.what for seen in truth if seen.where == "prover/0" and seen.what.startswith("device_")]
    assert held == ["device_acquired", "device_released"] * 2  # one lock for all of them
    work = kind.load(request())[0]
    vk = PreparedKey(kind._settings.keys.verifying_key(work.shape.key_name))
    assert all(vk.verify(work.public_inputs, rig.results.deliveries[f"job{n}"][0]) for n in range(2))


def test_phases_of_key_and_compilation_are_seen_once_a_device(kind: TinyKind) -> None:
    fresh = TinyKind(ProofKind.WINDOW_POST, replace(kind._settings, table_bytes=0))
    said: list[tuple[str, str]] = []

    def report(name: str, state: Holding, detail: object, *, reason: str | None = None) -> None:
        said.append((name.partition(":")[0], state))

    work = fresh.load(request())[0]
    device = discover("prover", jaxconf.devices("cpu"), [0])[0]
    for _ in range(2):
        fresh.prepare(work, device, report)  # type: ignore[arg-type]
    assert said == [
        ("program", "compiling"), ("program", "ready"), ("key", "loading"), ("key", "ready"), ("program", "compiling"),
        ("program", "ready"),
    ]  # fmt: skip


def test_a_key_that_was_damaged_since_its_check_is_refused_until_it_is_whole_again(
    kind: TinyKind, tmp_path: Path
) -> None:
    keys = KeyStore(shutil.copytree(kind._settings.keys.directory, tmp_path / "keys"))
    fresh = TinyKind(ProofKind.WINDOW_POST, replace(kind._settings, keys=keys, table_bytes=0))
    said: list[tuple[str, str | None]] = []

    def report(name: str, state: Holding, detail: object, *, reason: str | None = None) -> None:
        if name.startswith("key:"):
            said.append((state, reason))

    work, device = fresh.load(request())[0], discover("prover", jaxconf.devices("cpu"), [0])[0]
    name = work.shape.key_name
    keys.check(name)
    whole = keys.path(name, "params").read_bytes()
    keys.path(name, "params").write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    assert keys.find(name).changed
    with pytest.raises(KeyFileDamaged, match="changed since it was checked"):
        fresh.prepare(work, device, report)  # type: ignore[arg-type]
    keys.path(name, "params").write_bytes(whole)
    fresh.prepare(work, device, report)  # type: ignore[arg-type]
    assert said == [("loading", None), ("failed", "key_damaged"), ("loading", None), ("ready", None)]
    assert not keys.find(name).changed


def test_tables_are_made_once_in_the_background_and_seen_with_their_progress(kind: TinyKind) -> None:
    fresh = TinyKind(ProofKind.WINDOW_POST, replace(kind._settings, table_bytes=1 << 26))
    said: list[tuple[str, dict[str, float]]] = []

    def report(name: str, state: Holding, detail: dict[str, float], *, reason: str | None = None) -> None:
        if name.endswith("@tables"):
            said.append((state, detail))

    work = fresh.load(request())[0]
    for device in discover("prover", jaxconf.devices("cpu"), [0, 1]):
        fresh.prepare(work, device, report)
    fresh._keys.get(work.shape).tabulation.join(60)
    assert [state for state, _ in said] == ["loading"] * (len(said) - 1) + ["ready"] and len(said) > 3
    assert [detail["progress"] for _, detail in said] == sorted(detail["progress"] for _, detail in said)
    (_, begun), (_, ended) = said[0], said[-1]
    assert begun["progress"] == 0 and ended["progress"] == 1 and ended["bytes"] <= 1 << 26
    assert ended["seconds"] > 0
    report_nothing = lambda *_, **__: None  # noqa: E731
    pending = fresh.start(work, fresh.synthesize(work, report_nothing), device)
    fresh.verify(work, fresh.finish(pending))


@pytest.fixture
def bounded() -> Iterator[Device]:
    """The first device, which is given what it works on in chunks of at most 64 MiB."""
    device = discover("prover", jaxconf.devices("cpu"), [0])[0]
    bound_chunks([device], None, None)
    assert chunks.limit_of(device.handle) is None, "a CPU reads the host's memory"
    bound_chunks([device], 1 << 26, None)
    yield device
    chunks.bound(device.handle, None)


def short_of_memory(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """No device has room for more than so many bytes of rows at a time; the error is JAX's own."""
    put = kernels.put

    def try_to_put(array: np.ndarray, *, cut: bool) -> jax.Array:
        if array.nbytes > largest:
            jax.jit(lambda: jnp.zeros(1 << 48, jnp.uint8) + 1)().block_until_ready()
        return put(array, cut=cut)

    monkeypatch.setattr(table, "put", try_to_put)


def test_a_chunk_that_does_not_fit_its_device_is_halved_and_seen(
    kind: TinyKind, bounded: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, said = TinyKind(ProofKind.WINDOW_POST, replace(kind._settings, table_bytes=0)), list[tuple[object, ...]]()

    def report(name: str, state: Holding, detail: dict[str, Any], *, reason: str | None = None) -> None:
        if name.startswith("chunk"):
            said.append((name, state, detail.get("bytes")))

    monkeypatch.setattr(chunks, "LEAST", 1 << 12)
    work = fresh.load(request())[0]
    fresh.prepare(work, bounded, report)  # type: ignore[arg-type]
    short_of_memory(monkeypatch, ROOM)
    with structlog.testing.capture_logs() as logs:
        pending = fresh.start(work, fresh.synthesize(work, report), bounded)  # type: ignore[arg-type]
    fresh.verify(work, fresh.finish(pending))
    halved = chunks.limit_of(bounded.handle)
    assert halved and halved.nbytes <= ROOM
    assert said == [("chunk:0", "loading", None), ("chunk:0", "ready", halved.nbytes)]
    (line,) = [line for line in logs if line["event"] == "chunk halved"]
    assert line["worker"] == threading.current_thread().name and line["to_bytes"] == halved.nbytes

    short_of_memory(monkeypatch, 0)
    with pytest.raises(DeviceFailed, match="RESOURCE_EXHAUSTED"):
        fresh.start(work, fresh.synthesize(work, report), bounded)  # type: ignore[arg-type]


def test_a_proof_for_other_inputs_or_a_damaged_one_is_refused(kind: TinyKind) -> None:
    work = kind.load(request())[0]
    proof = bytes.fromhex(json.loads((DATA / "tiny.proof.json").read_text())["proof"])
    kind.verify(work, proof)
    with pytest.raises(ProofRefused, match="P0 does not verify"):
        kind.verify(replace(work, public_inputs=(work.public_inputs[0], work.public_inputs[1] ^ 1)), proof)
    for damaged in (bytes(192), proof[:-1], b"\xff" * 192):
        with pytest.raises(ProofRefused):
            kind.verify(work, damaged)
    with pytest.raises(ProofRefused):
        kind.verify_delivery([work, work], proof)
    kind.verify_delivery([work, work], proof + proof)


def test_a_request_is_checked_before_any_proving(kind: TinyKind) -> None:
    message = SubmitProofRequest.FromString(request())
    damaged = bytearray(message.vanilla_proofs[0])
    damaged[200] ^= 1
    message.vanilla_proofs[0] = bytes(damaged)
    with pytest.raises(MerklePathMismatch) as caught:
        kind.load(message.SerializeToString())
    assert "vanilla_proofs[0]" in (caught.value.field or "")


def test_a_circuit_beyond_the_transforms_is_refused_before_anything_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.pipeline.filecoin.partitions", lambda _: pytest.fail("the vanilla proofs are checked"))
    message = SubmitProofRequest.FromString(request())
    message.sector_size, message.registered_proof = 32 * GIB, 13
    del message.vanilla_proofs[1:]
    message.vanilla_proofs[0] = message.vanilla_proofs[0].ljust(24_960, b"\0")
    kind = FilecoinKind(ProofKind.WINDOW_POST, KindSettings(KeyStore(tmp_path), make_missing=True))
    with pytest.raises(DomainTooLarge, match="window-post 32GiB has 2"):
        kind.load(message.SerializeToString())


def test_a_missing_key_is_found_before_the_job_runs(tmp_path: Path) -> None:
    with pytest.raises(KeyNotFound):
        FilecoinKind(ProofKind.WINDOW_POST, KindSettings(KeyStore(tmp_path))).load(request())


def test_a_request_of_another_kind_is_refused(kind: TinyKind) -> None:
    with pytest.raises(Exception, match="winning-post"):
        kind.load(request("winning-post"))


@pytest.fixture(params=[(ProofKind.POREP, "porep"), (ProofKind.SNAP, "update")], ids=["porep", "update"])
def large(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FilecoinKind, bytes]:
    """A kind whose circuit is too large to prove here, with the vectors' verifying key and proof."""
    kind, name = request.param
    key = circuit_shape(kind, 2048).key_name
    shutil.copy(DATA / f"{name}.vk", tmp_path / f"{key}.vk")
    (tmp_path / f"{key}.params").touch()  # `load` looks whether it is there
    proof = bytes.fromhex(json.loads((DATA / f"{name}.proof.json").read_text())["proof"])
    return FilecoinKind(kind, KindSettings(KeyStore(tmp_path))), proof


def test_porep_and_snapdeals_are_loaded_and_their_published_proofs_verified(large: tuple[FilecoinKind, bytes]) -> None:
    kind, proof = large
    works = kind.load(request(kind.name))
    assert [work.index for work in works] == [0]
    kind.verify(works[0], proof)
    kind.verify_delivery(works, proof)
    other = replace(works[0], index=1, public_inputs=(*works[0].public_inputs[:-1], 1))
    with pytest.raises(ProofRefused, match=r"for P1 does not verify"):
        kind.verify_delivery([works[0], other], proof + proof)  # as a whole, then by partition


def test_a_false_porep_or_update_fails_when_it_is_loaded(large: tuple[FilecoinKind, bytes]) -> None:
    kind, _ = large
    message = SubmitProofRequest.FromString(request(kind.name))
    if message.vanilla_proof:
        message.miner_id += 1
    else:
        message.comm_r_new = message.comm_r_old
    with pytest.raises(InvalidInput):
        kind.load(message.SerializeToString())


def test_a_key_that_will_be_made_is_no_reason_to_refuse(tmp_path: Path) -> None:
    kind = FilecoinKind(ProofKind.SNAP, KindSettings(KeyStore(tmp_path), make_missing=True))
    (work,) = kind.load(request("snap-update"))
    assert kind.has_local_keys(work)


def test_devices_are_those_that_jax_has() -> None:
    found = discover("prover", jaxconf.devices("cpu"))
    assert [device.info.id for device in found] == [f"prover/{n}" for n in range(len(found))]
    with pytest.raises(DeviceMissing, match="device 9 does not exist"):
        discover("prover", jaxconf.devices("cpu"), [9])


def test_groups_of_devices_leave_none_over() -> None:
    devices = jax.devices("cpu")
    (both,) = discover("prover", devices, [2, 1], per_proof=2)
    assert both.handle == DeviceMesh.of([devices[2], devices[1]]) and both.info.id == "prover/2"
    with pytest.raises(DevicesUneven, match="3 devices do not make groups of 2") as caught:
        discover("prover", devices, per_proof=2)
    assert caught.value.field == "gpus.devices_per_proof"


def test_what_fails_to_load_is_tried_again_by_the_next() -> None:
    flight: SingleFlight[str, int] = SingleFlight()

    def fails() -> int:
        raise KeyNotFound("later, perhaps")

    with pytest.raises(KeyNotFound):
        flight.get("key", fails)
    assert flight.get("key", lambda: 7) == 7
    assert flight.get("key", fails) == 7
