"""`cuzk verify`: whether a proof proves a request, by a path that shares no code with the prover."""

from __future__ import annotations

import argparse
from pathlib import Path

from prover.filecoin.partitions import public_inputs
from prover.filecoin.request import MAX_PARTITIONS

from .arguments import Parsers, add_keys
from .exits import Exit
from .files import read_file, read_request
from .terminal import warn


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "verify the proof of a request"
    parser = parsers.add_parser("verify", help=text, description=text)
    parser.add_argument("request", type=Path, metavar="FILE", help="the request, JSON")
    parser.add_argument("proof", type=Path, metavar="PROOF", help="192 bytes a partition")
    add_keys(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    from prover.filecoin.shapes import PROOF_BYTES
    from prover.groth16.store import WARNINGS, KeyStore
    from prover.groth16.verifier import PreparedKey

    request = read_request(arguments.request)
    proof = read_file(arguments.proof, MAX_PARTITIONS * PROOF_BYTES)
    store, name = KeyStore(arguments.keys), request.shape.key_name
    key = PreparedKey(store.verifying_key(name))
    origin = store.origin(name)
    if WARNINGS[origin]:
        warn(WARNINGS[origin])
    wrong = key.verify_partitions(public_inputs(request), proof)
    if wrong:
        print(f"NOT VALID: {', '.join(f'P{request.partition_index + number}' for number in wrong)}")
        return Exit.REFUSED
    print(f"valid: {request.shape.label}, {request.partition_count} partitions")
    return Exit.OK
