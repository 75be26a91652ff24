"""`cuzk keys`: list, check and make keys. Keys made here are local: not for the chain."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prover.errors import CuzkError
from prover.filecoin.shapes import circuit_labels

from . import fetch_plan, key_actions, setup, tables
from .arguments import Parsers, add_keys
from .exits import Exit
from .terminal import Progress, note

if TYPE_CHECKING:
    from prover.groth16.store import KeyEntry
    from prover.groth16.tables import TableStore

FOR_THE_CHAIN = "the published key, for the chain"


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "list, check and make key files"
    commands = parsers.add_parser("keys", help=text, description=text).add_subparsers(required=True, metavar="COMMAND")
    setup.add_parser(commands)
    fetch_plan.add_parser(commands)
    tables.add_parser(commands)
    key_actions.add_parsers(commands)
    listing = commands.add_parser("list", help="the keys of a directory")
    add_keys(listing)
    listing.add_argument("--json", action="store_true", help="for scripts")
    listing.set_defaults(run=run_list)
    check = commands.add_parser("check", help="check every point of the keys, and record it")
    check.add_argument("names", nargs="*", metavar="NAME", help="a key's name or the start of it (default: all)")
    add_keys(check)
    check.set_defaults(run=run_check)


@dataclass(frozen=True)
class _Listed:
    """A key as it is listed."""

    name: str
    circuit: str | None
    bytes: int
    local: bool
    origin: str
    warning: str | None
    digest: str | None
    changed: bool
    table_bytes: int  # of files of bases and tables that provers on this machine map
    tables: int  # sections that have more than their bases
    set_aside: str | None  # why provers do not try to load it

    @classmethod
    def of(cls, entry: KeyEntry, labels: Mapping[str, str], store: TableStore | None) -> _Listed:
        circuit = labels.get(entry.name)
        files = store.files(entry.digest) if store and entry.digest else []
        return cls(
            entry.name, circuit, entry.size, entry.local, str(entry.origin), entry.warning, entry.digest, entry.changed,
            sum(file.size for file in files), len({file.section for file in files if file.copies > 1}),
            entry.set_aside,
        )  # fmt: skip

    def line(self) -> str:
        checked = f"checked, {self.digest}" if self.digest else "not checked yet"
        checked = "changed since its check, or copied: `cuzk keys check`" if self.changed else checked
        circuit = self.circuit or "unknown circuit"
        checked = f"{checked}; SET ASIDE: {self.set_aside}" if self.set_aside else checked
        words = [f"{circuit}: {self.bytes / 2**20:.1f} MiB, {checked}; {self.warning or FOR_THE_CHAIN}"]
        if self.table_bytes:
            kept = f"bases, and tables of {self.tables} sums," if self.tables else "bases"
            words.append(f"{kept} on this machine: {self.table_bytes / 2**20:.1f} MiB")
        return "\n  ".join([*words, self.name])


def run_list(arguments: argparse.Namespace) -> Exit:
    from prover.groth16.store import KeyStore

    labels, store = circuit_labels(), tables.table_store()
    listed = [_Listed.of(entry, labels, store) for entry in KeyStore(arguments.keys).entries()]
    if arguments.json:
        print(json.dumps([vars(key) for key in listed], indent=1))
    for key in [] if arguments.json else listed:
        print(key.line())
    if not listed:
        note(f"no keys in {arguments.keys}")
    return Exit.OK


def run_check(arguments: argparse.Namespace) -> Exit:
    """Every key is checked, also after a damaged one."""
    names = chosen(arguments.keys, arguments.names)
    good = [_check(arguments.keys, name) for name in names]
    return Exit.OK if all(good) else Exit.KEYS


def chosen(directory: Path, wanted: list[str]) -> list[str]:
    """Names of keys that begin with a wanted word, all where none is wanted. Raises KeyNotFound."""
    from prover.groth16.errors import KeyNotFound
    from prover.groth16.store import KeyStore

    names = [entry.name for entry in KeyStore(directory).entries()]
    for word in wanted:
        if not any(name.startswith(word) for name in names):
            raise KeyNotFound(f"no key in {directory} has a name that begins with {word[:200]!r}")
    chosen = [name for name in names if not wanted or name.startswith(tuple(wanted))]
    if not chosen:
        raise KeyNotFound(f"there are no keys in {directory}")
    return chosen


def _check(directory: Path, name: str) -> bool:
    from prover.groth16.store import KeyStore

    progress = Progress(f"checking {name}")
    try:
        entry = KeyStore(directory).check(name, progress)
    except CuzkError as error:
        progress.done()
        print(f"{name}: {error} [{error.code}]")
        return False
    progress.done()
    print(f"{name}: good; {entry.warning or FOR_THE_CHAIN}")
    return True
