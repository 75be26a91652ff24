"""`cuzk keys tables`: encode bases and make fixed-base tables ahead of time, for every prover on this machine."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from prover.filecoin.circuit_ids import circuit_of
from prover.filecoin.shapes import CircuitShape

from .arguments import Parsers, add_keys, cache_directory
from .exits import Exit
from .terminal import Progress, note

if TYPE_CHECKING:
    from prover.groth16.store import KeyStore
    from prover.groth16.tables import TableStore


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "make the tables of keys ahead of time; provers map them"
    parser = parsers.add_parser("tables", help=text, description=text)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a key's name or the start of it (default: all)")
    add_keys(parser)
    parser.add_argument("--memory", metavar="SIZE", help="as memory.host_memory of the daemon: 4GiB, auto")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    """Bases and tables of each key, in the cache folder. Raises TablesNotKept."""
    from prover import config
    from prover.groth16.store import KeyStore
    from prover.groth16.tables import TablesNotKept
    from prover.jaxconf import configure

    from .keys import chosen

    said = [f"memory.host_memory={arguments.memory}"] if arguments.memory else []
    memory = config.load(None, flags=said).table_bytes()
    names = chosen(arguments.keys, arguments.names)
    shapes = [circuit_of(name) for name in names]
    tables = table_store()
    if tables is None:
        raise TablesNotKept("the folder cannot be written", field="cache.directory")
    configure("cpu", cache_dir=cache_directory("jax"))
    for name, shape in zip(names, shapes, strict=True):
        _make(KeyStore(arguments.keys), name, shape, tables, memory)
    return Exit.OK


def table_store() -> TableStore | None:
    """Where this machine keeps bases and tables; None where nothing can be kept."""
    from prover.config import cpus
    from prover.groth16.tables import TableStore

    folder = cache_directory("tables")
    return TableStore(folder, cpus()) if folder else None


def _make(store: KeyStore, name: str, shape: CircuitShape, tables: TableStore, memory: int) -> None:
    from prover.circuits.synthesis import Circuit
    from prover.config import cpus
    from prover.groth16.prover import ProvingKey

    began, progress = time.monotonic(), Progress(f"tables of {shape.label}")
    parameters = store.open(name, progress)
    matrices = Circuit.load(shape, cache_directory("circuits")).matrices
    key = ProvingKey(parameters, matrices, threads=cpus(), store=tables, table_bytes=memory)
    key.refuse_unkept()
    key.tabulate(memory, progress, cpus())
    progress.done()
    seconds = time.monotonic() - began
    print(f"{shape.label}: {key.nbytes / 2**20:.0f} MiB of bases and tables, {seconds:.1f} s")
    if not key.tabulated:
        note("the bases alone: tables would not pay in this memory")
