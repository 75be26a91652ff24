"""The requests that `cuzk bench` has proved: from files in cuzk-bench's forms, from a request, or fresh samples."""

from __future__ import annotations

import argparse
import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path

from prover.errors import InvalidInput
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.request import MAX_REQUEST, ProofRequest, parse_json, parse_message
from prover.filecoin.shapes import ProofKind

from .files import read_file, read_request
from .sample import sample_request

#: cuzk-bench's words for the kinds, beside our own
KINDS = {
    "porep": ProofKind.POREP, "porep-c2": ProofKind.POREP, "c2": ProofKind.POREP,
    "snap": ProofKind.SNAP, "snap-deals": ProofKind.SNAP, "snap-update": ProofKind.SNAP, "update": ProofKind.SNAP,
    "wpost": ProofKind.WINDOW_POST, "window": ProofKind.WINDOW_POST, "window-post": ProofKind.WINDOW_POST,
    "winning": ProofKind.WINNING_POST, "winning-post": ProofKind.WINNING_POST,
}  # fmt: skip
_NUMBERS = {
    ProofKind.POREP: pb.POREP_SEAL_COMMIT, ProofKind.SNAP: pb.SNAP_DEALS_UPDATE,
    ProofKind.WINDOW_POST: pb.WINDOW_POST_PARTITION, ProofKind.WINNING_POST: pb.WINNING_POST,
}  # fmt: skip


class VanillaUnreadable(InvalidInput):
    """The file is no JSON list of proofs in base64."""

    code = "vanilla_unreadable"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """As cuzk-bench has them; without a file a fresh sample is sealed."""
    kinds = sorted(KINDS)
    parser.add_argument("-t", "--type", choices=kinds, default="window-post", metavar="KIND", help=", ".join(kinds))
    parser.add_argument("--request", type=Path, metavar="FILE", help="a whole request, JSON; the others do not count")
    parser.add_argument("--c1", type=Path, metavar="FILE", help="porep: the output of C1, JSON")
    parser.add_argument("--vanilla", type=Path, metavar="FILE", help="the others: a JSON list of proofs in base64")
    parser.add_argument("--size", default="2KiB", metavar="SIZE", help="sector size (default 2KiB)")
    parser.add_argument("--registered-proof", type=int, default=0, metavar="N")
    parser.add_argument("--sector-num", type=int, default=1, metavar="N")
    parser.add_argument("--miner-id", type=int, default=1000, metavar="N")
    parser.add_argument("--partition", type=int, default=0, metavar="N")
    for name in ("randomness", "comm-r-old", "comm-r-new", "comm-d-new"):
        parser.add_argument(f"--{name}", type=_bytes, default=b"", metavar="HEX")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of a fresh sample (default 1)")


def request(arguments: argparse.Namespace) -> ProofRequest:
    """What the arguments describe. Raises a subclass of InvalidInput that names the field."""
    if arguments.request is not None:
        return read_request(arguments.request)
    kind = KINDS[arguments.type]
    if arguments.c1 is None and arguments.vanilla is None:
        return parse_json(sample_request(kind, arguments.seed, arguments.size))
    return parse_message(_message(kind, arguments).SerializeToString())


def renamed(request: ProofRequest, run: str) -> Iterator[ProofRequest]:
    """The same over and over, each under an id of its own: else all would be one job."""
    number = 0
    while True:
        message = pb.SubmitProofRequest.FromString(request.canonical)
        message.request_id = f"bench-{run}-{request.kind}-{number}"
        number += 1
        yield parse_message(message.SerializeToString())


def _message(kind: ProofKind, arguments: argparse.Namespace) -> pb.SubmitProofRequest:
    from .arguments import sector

    size = sector(arguments.size).size
    c1 = read_file(arguments.c1, MAX_REQUEST) if arguments.c1 is not None else b""
    return pb.SubmitProofRequest(
        proof_kind=_NUMBERS[kind], sector_size=size, registered_proof=arguments.registered_proof, vanilla_proof=c1,
        vanilla_proofs=_proofs(arguments.vanilla) if arguments.vanilla is not None else [],
        sector_number=arguments.sector_num, miner_id=arguments.miner_id, partition_index=arguments.partition,
        randomness=arguments.randomness, comm_r_old=arguments.comm_r_old, comm_r_new=arguments.comm_r_new,
        comm_d_new=arguments.comm_d_new,
    )  # fmt: skip


def _proofs(path: Path) -> list[bytes]:
    try:
        found = json.loads(read_file(path, 2 * MAX_REQUEST))
        return [base64.b64decode(text, validate=True) for text in found]
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise VanillaUnreadable(f"{path}: {error}", field="--vanilla") from error


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
