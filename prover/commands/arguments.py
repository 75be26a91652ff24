"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prover.errors import CuzkError
from prover.filecoin.shapes import (
    PARAMETER_CACHE,
    CircuitShape,
    ProofKind,
    SectorShape,
    circuit_shape,
    parse_sector_size,
)

if TYPE_CHECKING:
    from prover.pipeline.devices import Device

Parsers = argparse._SubParsersAction  # argparse has no public name for it
MOST_DEVICES = 64


def add_kind(parser: argparse.ArgumentParser) -> None:
    """KIND and --size."""
    parser.add_argument("kind", metavar="KIND", choices=list(ProofKind), type=ProofKind, help=", ".join(ProofKind))
    parser.add_argument("--size", default="2KiB", type=sector, metavar="SIZE", help="sector size (default 2KiB)")


def circuit(arguments: argparse.Namespace) -> CircuitShape:
    """The circuit that KIND and --size name. Raises UnsupportedSectorSize."""
    return circuit_shape(arguments.kind, arguments.size.size)


def sector(text: str) -> SectorShape:
    """A sector size as argparse reads it."""
    try:
        return parse_sector_size(text)
    except CuzkError as error:
        raise argparse.ArgumentTypeError(error.message) from error


def default_keys() -> Path:
    """Where the Filecoin stack keeps its parameters."""
    configured = os.environ.get("FIL_PROOFS_PARAMETER_CACHE")
    return Path(configured or PARAMETER_CACHE)


def add_keys(parser: argparse.ArgumentParser) -> None:
    """--keys DIR."""
    text = "directory of key files (default: FIL_PROOFS_PARAMETER_CACHE)"
    parser.add_argument("--keys", metavar="DIR", type=Path, default=default_keys(), help=text)


def add_device(parser: argparse.ArgumentParser) -> None:
    """--platform."""
    parser.add_argument("--platform", choices=["cpu", "gpu"], default="cpu", help="where to compute (default cpu)")


def add_devices(parser: argparse.ArgumentParser) -> None:
    """--platform and --devices."""
    add_device(parser)
    parser.add_argument("--devices", type=_count, default=1, metavar="N", help="that work on it together (default 1)")


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and {MOST_DEVICES}")
    return number


def open_devices(arguments: argparse.Namespace, count: int | None = None) -> Device:
    """Configures JAX; the first --devices (or `count`) of the platform as one, bounded as a prover's. Raises
    PlatformUnavailable, and DeviceMissing where there are fewer."""
    from prover.config import load
    from prover.jaxconf import configure
    from prover.pipeline.device_memory import bound_chunks
    from prover.pipeline.devices import discover

    count, memory = count or arguments.devices, load().memory
    found = configure(arguments.platform, count if arguments.platform == "cpu" else 1, cache_directory("jax"))
    devices = discover("prove", found, range(count), per_proof=count)
    bound_chunks(devices, memory.device_chunk, memory.device_memory)
    return devices[0]


def cache_directory(name: str) -> Path | None:
    """Where recorded circuits and compiled programs are kept between runs; None where nothing can be kept. Raises
    ConfigurationInvalid."""
    from prover.config import load

    directory = load().cache.directory / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK) else None


def add_database(parser: argparse.ArgumentParser) -> None:
    """--database URL."""
    text = "default: DATABASE_URL, else that of a running `cuzk up`, else postgresql:///cuzk"
    parser.add_argument("--database", metavar="URL", default=default_database(), help=text)


def default_database() -> str:
    """The database to use when none is named."""
    from prover.stack.running import database_url, home_folder

    return os.environ.get("DATABASE_URL") or database_url(home_folder()) or "postgresql:///cuzk"
