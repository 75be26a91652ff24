"""`cuzk keys setup`: make the keys of a circuit here. They are local keys: not for the chain."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from prover.circuits.provable import refuse_unprovable
from prover.errors import InvalidInput

from .arguments import Parsers, add_device, add_kind, cache_directory, circuit, open_devices
from .exits import Exit
from .files import read_file
from .terminal import Progress, note, warn

if TYPE_CHECKING:
    from prover.filecoin.shapes import CircuitShape
    from prover.groth16.setup import Scalars
    from prover.groth16.store import KeyEntry, KeyStore

MAX_SCALARS = 1 << 16  # bytes


class ScalarsUnreadable(InvalidInput):
    """The file holds no scalars: a JSON object with alpha, beta, gamma, delta and tau in hexadecimal, big-endian."""

    code = "scalars_unreadable"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "make the keys of a circuit (local keys: not for the chain)"
    parser = parsers.add_parser("setup", help=text, description=text)
    add_kind(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory of key files")
    parser.add_argument("--scalars", type=Path, metavar="FILE", help="known scalars, for tests only: JSON, hex")
    add_device(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    from prover.groth16.making import OTHERS_MAKE, sole_maker
    from prover.groth16.store import KeyStore

    shape = circuit(arguments)
    refuse_unprovable(shape)
    store = KeyStore(arguments.out)
    store.refuse_existing(shape.key_name)
    scalars = None if arguments.scalars is None else read_scalars(arguments.scalars)
    with sole_maker(arguments.out, shape.key_name, lambda: note(f"{OTHERS_MAKE} the key of {shape.label}: waiting")):
        store.refuse_existing(shape.key_name)
        entry = _make(arguments, store, shape, scalars)
    note(f"{entry.size / 2**20:.1f} MiB, digest {entry.digest}")
    print(entry.path)
    return Exit.OK


def _make(arguments: argparse.Namespace, store: KeyStore, shape: CircuitShape, scalars: Scalars | None) -> KeyEntry:
    from prover.groth16.making import making
    from prover.groth16.setup import setup

    warn("local keys: not for the chain")
    if scalars:
        warn("the scalars are known: whoever knows them can forge proofs")
    open_devices(arguments, 1)
    from prover.circuits.synthesis import Circuit

    matrices = Circuit.load(shape, cache_directory("circuits")).matrices
    progress = Progress(f"setting up {shape.label}")
    with making(arguments.out, shape.key_name):
        parameters = setup(matrices, scalars, lambda _, fraction: progress(fraction))
        entry = store.add_alone(shape.key_name, parameters, shape.sector.size, known_scalars=scalars is not None)
    progress.done()
    return entry


def read_scalars(path: Path) -> Scalars:
    """The scalars in a JSON file: the object itself, or the member `scalars` of one. Raises ScalarsInvalid."""
    from prover.groth16.setup import Scalars

    try:
        found = json.loads(read_file(path, MAX_SCALARS))
    except (ValueError, RecursionError) as error:
        raise ScalarsUnreadable(field="--scalars") from error
    return Scalars.from_hex(found.get("scalars", found) if isinstance(found, dict) else found)
