"""Where the values of a vanilla proof come from: bincode or JSON, as Rust's serde writes the same structures.

One description of a structure reads both: `part` is a member, `items` a vector, `variant` an enum. The caller says how
long everything must be, so nothing is allocated because the input says so. Parts are read once, in the order of the
structure's declaration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from prover.errors import InvalidInput

from . import fr
from .errors import MalformedVanillaProof, NonCanonicalElement, TrailingBytes, TruncatedVanillaProof

DIGEST_BYTES = 32
JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
CountError: TypeAlias = type[InvalidInput]


class Source(Protocol):
    """A value that is still to be read. Every error names its place."""

    @property
    def place(self) -> str:
        """Where it is, such as ``vanilla_proofs[3].sectors[0].comm_c``."""

    def part(self, name: str) -> Source:
        """A member of a structure."""

    def inside(self, name: str) -> Source:
        """A member that is the only one of its structure: bincode does not show it."""

    def variant(self, names: Sequence[str], wanted: str) -> Source:
        """What the variant `wanted` of an enum holds. Raises MalformedVanillaProof for another one."""

    def items(self, count: int, error: CountError = MalformedVanillaProof) -> Iterator[Source]:
        """The values of a vector. Raises `error` unless there are `count`."""

    def elements(self, count: int) -> tuple[int, ...]:
        """A vector of field elements. Raises as `items` and `element` do."""

    def element(self) -> int:
        """A field element. Raises NonCanonicalElement."""

    def digest(self) -> bytes:
        """32 bytes of any value."""

    def number(self, bits: int) -> int:
        """An unsigned integer."""


def check_count(found: int, wanted: int, place: str, error: CountError = MalformedVanillaProof) -> None:
    """Raises `error` unless a vector has as many values as it must have."""
    if found != wanted:
        raise error(f"{found} elements declared, {wanted} prescribed", field=place)


class Bincode:
    """A value in bincode 1.x: little-endian fixed integers, u64 lengths, u32 enum variants, 32-byte field elements
    without a length. It has no position of its own: what is read is what comes next."""

    __slots__ = ("_cursor", "_name", "_parent")

    def __init__(self, data: bytes | _Cursor, name: str, parent: Bincode | None = None) -> None:
        self._cursor = data if isinstance(data, _Cursor) else _Cursor(data)
        self._name = name
        self._parent = parent

    @property
    def place(self) -> str:
        return self._name if self._parent is None else self._parent.place + self._name

    def part(self, name: str) -> Bincode:
        return Bincode(self._cursor, f".{name}", self)

    def inside(self, name: str) -> Bincode:
        return self

    def variant(self, names: Sequence[str], wanted: str) -> Bincode:
        found, prescribed = self.number(32), names.index(wanted)
        if found != prescribed:
            raise MalformedVanillaProof(f"variant {found} found, {prescribed} prescribed", field=self.place)
        return self

    def items(self, count: int, error: CountError = MalformedVanillaProof) -> Iterator[Bincode]:
        check_count(self.number(64), count, self.place, error)
        return (Bincode(self._cursor, f"[{i}]", self) for i in range(count))

    def elements(self, count: int) -> tuple[int, ...]:
        check_count(self.number(64), count, self.place)
        return tuple(Bincode(self._cursor, f"[{i}]", self).element() for i in range(count))

    def element(self) -> int:
        return _canonical(self._take(fr.SIZE), self)

    def digest(self) -> bytes:
        return self._take(DIGEST_BYTES)

    def number(self, bits: int) -> int:
        return int.from_bytes(self._take(bits // 8), "little")

    def end(self) -> None:
        """Raises TrailingBytes unless everything was read."""
        left = len(self._cursor.data) - self._cursor.at
        if left:
            raise TrailingBytes(f"{left} bytes follow the {self._cursor.at} bytes of the proof", field=self.place)

    def _take(self, size: int) -> bytes:
        cursor = self._cursor
        start, cursor.at = cursor.at, cursor.at + size
        if cursor.at > len(cursor.data):
            text = f"{size} bytes needed, {len(cursor.data) - start} left"
            raise TruncatedVanillaProof(text, field=self.place)
        return cursor.data[start : cursor.at]


class _Cursor:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0


class Json:
    """A value of a JSON document: field elements and digests are lists of 32 bytes, an enum is an object with the
    variant as its only key."""

    __slots__ = ("_name", "_parent", "value")

    def __init__(self, value: JsonValue, name: str, parent: Json | None = None) -> None:
        self.value = value
        self._name = name
        self._parent = parent

    @property
    def place(self) -> str:
        return self._name if self._parent is None else self._parent.place + self._name

    def part(self, name: str) -> Json:
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        if name not in self.value:
            raise MalformedVanillaProof("the field is missing", field=f"{self.place}.{name}")
        return Json(self.value[name], f".{name}", self)

    def inside(self, name: str) -> Json:
        return self.part(name)

    def variant(self, names: Sequence[str], wanted: str) -> Json:
        if not isinstance(self.value, dict):
            raise self._wrong("an object")
        if list(self.value) != [wanted]:
            found = ", ".join(self.value)[:80]
            raise MalformedVanillaProof(f"{found or 'nothing'} found, {wanted} prescribed", field=self.place)
        return self.part(wanted)

    def items(self, count: int, error: CountError = MalformedVanillaProof) -> Iterator[Json]:
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        check_count(len(self.value), count, self.place, error)
        return (Json(value, f"[{i}]", self) for i, value in enumerate(self.value))

    def elements(self, count: int) -> tuple[int, ...]:
        return tuple(item.element() for item in self.items(count))

    def element(self) -> int:
        return _canonical(self.digest(), self)

    def digest(self) -> bytes:
        if not isinstance(self.value, list) or len(self.value) != DIGEST_BYTES:
            raise self._wrong(f"a list of {DIGEST_BYTES} bytes")
        if any(type(byte) is not int or not 0 <= byte <= 255 for byte in self.value):  # a truth value is no byte
            raise self._wrong(f"a list of {DIGEST_BYTES} bytes")
        return bytes(self.value)  # type: ignore[arg-type]

    def number(self, bits: int) -> int:
        if type(self.value) is not int or not 0 <= self.value < 1 << bits:
            raise self._wrong(f"an unsigned integer of {bits} bits")
        return self.value

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self._wrong("a string")
        return self.value

    def _wrong(self, wanted: str) -> MalformedVanillaProof:
        return MalformedVanillaProof(f"{_KINDS.get(type(self.value), 'null')} found, {wanted} needed", field=self.place)


_KINDS: dict[type, str] = {
    bool: "a truth value", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object",
}  # fmt: skip


def read_json(data: bytes, field: str, *, brackets: int, values: int) -> Json:
    """The JSON document in `data`, which holds at most `brackets` objects and lists and `values` values: that is
    looked at before anything is built. Raises MalformedVanillaProof, also for a key that an object has twice."""
    for name, found, limit in (
        ("objects and lists", data.count(b"[") + data.count(b"{"), brackets),
        ("values", data.count(b",") + 1, values),
    ):
        if found > limit:
            raise MalformedVanillaProof(f"{found} {name}, at most {limit} allowed", field=field)
    try:
        value: JsonValue = json.loads(data.decode(), object_pairs_hook=without_doubles, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedVanillaProof(f"no JSON document: {str(error)[:100]}", field=field) from error
    return Json(value, field)


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON document; ValueError for a key that it has twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON")


def _canonical(data: bytes, source: Source) -> int:
    value = int.from_bytes(data, "little")
    if value >= fr.MODULUS:
        raise NonCanonicalElement(field=source.place)
    return value
