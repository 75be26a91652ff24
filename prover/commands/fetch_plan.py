"""`cuzk keys fetch-plan`: which published key files are needed, where to get them and where they go.

It downloads nothing: 32 GiB circuits have keys of tens of gigabytes, and how they come is for the operator to decide.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from prover.circuits.provable import unprovable
from prover.errors import InvalidInput
from prover.filecoin.published import GATEWAY, MAX_MANIFEST, Manifest, PublishedFile, parse_manifest, published
from prover.filecoin.shapes import CircuitShape, ProofKind, circuit_shape

from .arguments import Parsers, add_keys, sector
from .exits import Exit
from .files import read_file
from .terminal import note, warn


class NotPublished(InvalidInput):
    """No keys are published for this circuit: `cuzk keys setup` makes local ones."""

    code = "key_not_published"


@dataclass(frozen=True)
class _Step:
    """A file, where it comes from and where it goes."""

    circuit: str
    file: str
    cid: str
    digest: str
    url: str
    destination: str
    bytes: int
    state: str
    unprovable: str | None  # why this prover can verify with the key, but not prove


def add_parser(parsers: Parsers[argparse.ArgumentParser]) -> None:
    text = "which published key files to download, from where and to where; downloads nothing"
    parser = parsers.add_parser("fetch-plan", help=text, description=text)
    kinds = ", ".join(ProofKind)
    parser.add_argument("kinds", nargs="*", type=_kind, metavar="KIND", help=f"{kinds} (default: all)")
    parser.add_argument("--size", required=True, type=sector, metavar="SIZE", help="sector size, such as 32GiB")
    parser.add_argument("--parameters", type=Path, metavar="FILE", help="a parameters.json of another network")
    parser.add_argument("--gateway", default=GATEWAY, metavar="URL", help=f"what stands before a cid ({GATEWAY})")
    parser.add_argument("--json", action="store_true", help="for scripts")
    add_keys(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    manifest = _manifest(arguments.parameters)
    steps = [
        _step(shape, file, arguments.keys, arguments.gateway)
        for kind in arguments.kinds or ProofKind
        for shape in [circuit_shape(kind, arguments.size.size)]
        for file in _files(shape, manifest)
    ]
    if arguments.json:
        print(json.dumps([asdict(step) for step in steps], indent=1))
        return Exit.OK
    for step in steps:
        print(_text(step))
    for reason in dict.fromkeys(step.unprovable for step in steps if step.unprovable):
        warn(reason)
    missing = [step for step in steps if step.state != "there"]
    total = f"{sum(step.bytes for step in missing) / 2**30:.2f} GiB"
    note(f"{len(missing)} of {len(steps)} files to get, {total}; then `cuzk keys check` looks at every point once")
    return Exit.OK


def _kind(word: str) -> ProofKind:
    try:
        return ProofKind(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word[:40]!r} is none of {', '.join(ProofKind)}") from None


def _manifest(path: Path | None) -> Manifest:
    return published() if path is None else parse_manifest(read_file(path, MAX_MANIFEST))


def _files(shape: CircuitShape, manifest: Manifest) -> list[PublishedFile]:
    names = [f"{shape.key_name}.{extension}" for extension in ("params", "vk")]
    if not all(name in manifest for name in names):
        raise NotPublished(f"no keys are published for {shape.label}: `cuzk keys setup` makes local ones")
    return [manifest[name] for name in names]


def _step(shape: CircuitShape, file: PublishedFile, directory: Path, gateway: str) -> _Step:
    destination, size = directory / file.name, _size(shape, file)
    url = f"{gateway.removesuffix('/')}/{file.cid}"
    state = _state(destination, size)
    return _Step(shape.label, file.name, file.cid, file.digest, url, str(destination), size, state, unprovable(shape))


def _size(shape: CircuitShape, file: PublishedFile) -> int:
    from prover.circuits.summary import params_size, vk_size

    return vk_size(shape) if file.name.endswith(".vk") else params_size(shape)


def _state(path: Path, size: int) -> str:
    """By length alone: digests are for `keys check`, which reads the whole file."""
    if not path.is_file():
        return "missing"
    if path.stat().st_size != size:
        return f"another length: {path.stat().st_size} bytes"
    return "there"


def _text(step: _Step) -> str:
    head = f"{step.circuit}: {step.state}, {step.bytes} bytes, BLAKE2b {step.digest}"
    return f"{head}\n  from {step.url}\n  to   {step.destination}"
