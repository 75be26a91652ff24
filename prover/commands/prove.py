"""`cuzk prove`: prove a request here and now, without a database."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from prover.circuits.provable import refuse_unprovable
from prover.errors import InvalidInput
from prover.filecoin.fr import MODULUS
from prover.filecoin.partitions import Partition, partitions
from prover.filecoin.request import ProofRequest

from .arguments import Parsers, add_devices, add_keys, cache_directory, open_devices
from .exits import Exit
from .files import read_request, write_file
from .tables import table_store
from .terminal import Progress, warn

Prove = Callable[[Partition], bytes]


class BlindingInvalid(InvalidInput):
    """A fixed r needs a fixed s, both in big-endian hexadecimal and less than the order of the scalar field."""

    code = "blinding_invalid"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "prove a request here, without a database"
    parser = parsers.add_parser("prove", help=text, description=text)
    parser.add_argument("request", type=Path, metavar="FILE", help="the request, JSON")
    add_keys(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="PROOF", help="192 bytes a partition")
    for name in ("r", "s"):
        parser.add_argument(f"--{name}", metavar="HEX", help="fixed, for tests only; else fresh random numbers")
    add_devices(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    blinding = _blinding(arguments.r, arguments.s)
    request = read_request(arguments.request)
    refuse_unprovable(request.shape)
    checking = Progress("checking the vanilla proofs")
    work = partitions(request)
    checking.done()
    prove = _prover(arguments, request, blinding)
    proof = b"".join(_proofs(work, prove))
    _verify(arguments.keys, request, work, proof)
    write_file(arguments.out, proof)
    print(f"{request.shape.label}: {len(work)} partitions, {len(proof)} bytes, verified: {arguments.out}")
    return Exit.OK


def _blinding(r: str | None, s: str | None) -> tuple[int | None, int | None]:
    if r is None and s is None:
        return None, None
    warn("fixed r and s give the witness away: for tests only")
    try:
        numbers = int(r or "", 16), int(s or "", 16)
    except ValueError as error:
        raise BlindingInvalid(field="--r, --s") from error
    if not all(0 <= number < MODULUS for number in numbers):
        raise BlindingInvalid(field="--r, --s")
    return numbers


def _prover(arguments: argparse.Namespace, request: ProofRequest, blinding: tuple[int | None, int | None]) -> Prove:
    """Everything that all partitions share, loaded and compiled."""
    from prover.circuits.synthesis import Circuit
    from prover.config import cpus, load
    from prover.groth16.prover import ProvingKey, start
    from prover.groth16.store import KeyStore

    store, name = KeyStore(arguments.keys), request.shape.key_name
    entry = store.find(name)
    if entry.warning:
        warn(entry.warning)
    loading = Progress("preparing the key")
    parameters = store.open(name, loading)
    device = open_devices(arguments)
    circuit = Circuit.load(request.shape, cache_directory("circuits"))
    memory = load().table_bytes(device.own_memory)
    key = ProvingKey(
        parameters, circuit.matrices, device.handle, threads=cpus(), store=table_store(), table_bytes=memory
    )  # fmt: skip
    loading.done()

    def prove(partition: Partition) -> bytes:
        return start(key, circuit.synthesize(partition.instance), *blinding).finish()

    return prove


def _proofs(work: tuple[Partition, ...], prove: Prove) -> list[bytes]:
    progress, proofs = Progress("proving, compilation included"), []
    for partition in work:
        proofs.append(prove(partition))
        progress(len(proofs) / len(work))
    progress.done()
    return proofs


def _verify(keys: Path, request: ProofRequest, work: tuple[Partition, ...], proof: bytes) -> None:
    """What is delivered is what is verified."""
    from prover.groth16.store import KeyStore
    from prover.groth16.verifier import PreparedKey
    from prover.pipeline.kinds import ProofRefused

    key = PreparedKey(KeyStore(keys).verifying_key(request.shape.key_name))
    wrong = key.verify_partitions([partition.public_inputs for partition in work], proof)
    if wrong:
        places = ", ".join(f"P{work[number].index}" for number in wrong)
        raise ProofRefused(
            f"the proofs of {places} do not verify: the device or the memory is at fault; nothing was written"
        )
