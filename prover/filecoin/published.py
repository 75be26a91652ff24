"""The key files that the Filecoin network uses: their names, digests and content ids, as parameters.json lists them.

`parameters.json` beside this module is the list of rust-fil-proofs, of the circuits that are in use. Whoever serves
another network has a list of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from prover.errors import InvalidInput

MAX_MANIFEST = 1 << 20  # bytes
GATEWAY = "https://proofs.filecoin.io/ipfs/"
_NAME = re.compile(r"v\d+-[a-z0-9_-]+\.(params|vk|srs)")
_CID = re.compile(r"[A-Za-z0-9]{46,64}")
_DIGEST = re.compile(r"[0-9a-f]{32}")


class ManifestInvalid(InvalidInput):
    """The file is no parameters.json: an object of file names, each with cid, digest and sector_size."""

    code = "manifest_invalid"


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of the list. `digest`: the first 16 bytes of its BLAKE2b-512, in hex."""

    name: str
    cid: str
    digest: str
    sector_size: int  # bytes


Manifest = dict[str, PublishedFile]


@cache
def published() -> Manifest:
    """The files of the Filecoin network by name, with extension."""
    return parse_manifest((Path(__file__).parent / "parameters.json").read_bytes())


def parse_manifest(data: bytes) -> Manifest:
    """The files of a parameters.json. Raises ManifestInvalid, which names the entry."""
    if len(data) > MAX_MANIFEST:
        raise ManifestInvalid(f"{len(data)} bytes given, {MAX_MANIFEST} allowed")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestInvalid from error
    if not isinstance(found, dict):
        raise ManifestInvalid
    return {name: _entry(name, value) for name, value in found.items()}


def file_digest(data: bytes) -> str:
    """The digest of a small file as the list has it."""
    return blake2b(data).hexdigest()[:32]


def _entry(name: str, value: object) -> PublishedFile:
    fields = value if isinstance(value, dict) else {}
    cid, digest, size = (fields.get(key) for key in ("cid", "digest", "sector_size"))
    sound = (
        _NAME.fullmatch(name)
        and isinstance(cid, str)
        and _CID.fullmatch(cid)
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest)
    )
    if not sound or type(size) is not int or size < 0:
        raise ManifestInvalid(field=name[:120])
    return PublishedFile(name, str(cid), str(digest), size)
