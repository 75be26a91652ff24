"""The names that the original daemon gives circuits (`porep-32g`, `wpost-32g`), for every size that there is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from .errors import CircuitUnknown
from .shapes import GIB, KIB, MIB, CircuitShape, ProofKind, circuit_shapes

_PREFIXES = {
    ProofKind.POREP: "porep",
    ProofKind.SNAP: "snap",
    ProofKind.WINDOW_POST: "wpost",
    ProofKind.WINNING_POST: "winning",
}


def circuit_id(shape: CircuitShape) -> str:
    """Such as `porep-32g`."""
    size = shape.sector.size
    unit, letter = next((unit, letter) for unit, letter in ((GIB, "g"), (MIB, "m"), (KIB, "k")) if size >= unit)
    return f"{_PREFIXES[shape.kind]}-{size // unit}{letter}"


def circuit_of(name: str) -> CircuitShape:
    """The circuit of an id, of a key's name, or of a label (with a hyphen, too). Raises CircuitUnknown."""
    found = _circuits().get(name.strip())
    if found is None:
        known = ", ".join(circuit_id(shape) for shape in circuit_shapes())
        raise CircuitUnknown(f"{name[:100]!r} is none of {known}", field="circuit_id")
    return found


def id_of_key(key_name: str) -> str | None:
    """The circuit's id of a key's name or label; None when it is no circuit's."""
    found = _circuits().get(key_name)
    return None if found is None else circuit_id(found)


@cache
def _circuits() -> Mapping[str, CircuitShape]:
    shapes = list(circuit_shapes())
    return {name: shape for shape in shapes for name in (circuit_id(shape), shape.key_name, *_labels(shape))}


def _labels(shape: CircuitShape) -> tuple[str, str]:
    return shape.label, shape.label.replace(" ", "-")
