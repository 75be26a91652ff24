"""A configuration written down as TOML, with where each value comes from; secrets are masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from pydantic import ByteSize

from .config import Config, Loaded, Section

MASK = "********"
_SECRETS = ("password", "token", "secret")
_UNITS = (("GiB", 30), ("MiB", 20), ("KiB", 10))


def to_toml(loaded: Loaded) -> str:
    """A file that gives the same configuration, but for masked secrets; the comments are the origins."""
    return "\n".join(_lines(loaded.config, loaded.origins)) + "\n"


def _lines(config: Config, origins: Mapping[str, str]) -> Iterator[str]:
    for number, name in enumerate(type(config).model_fields):
        section: Section = getattr(config, name)
        yield from ([""] if number else [])
        yield f"[{name}]"
        for key in type(section).model_fields:
            yield f"{_assignment(section, key)}  # {origins.get(f'{name}.{key}', 'default')}"


def _assignment(section: Section, key: str) -> str:
    value = getattr(section, key)
    if value is None and not _takes_auto(section, key):
        return f"# {key} is not set"
    return f"{key} = {_text(key, value)}"


def _takes_auto(section: Section, key: str) -> bool:
    try:
        return getattr(type(section).model_validate({key: "auto"}), key) is None
    except ValueError:
        return False


def _text(key: str, value: object) -> str:
    if value is None:
        return json.dumps("auto")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ByteSize):
        return json.dumps(_size(value))
    if isinstance(value, float):
        return json.dumps(f"{value:.15g}s")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_text(key, each) for each in value)}]"
    assert isinstance(value, str | Path)
    return json.dumps(_masked(key, str(value)), ensure_ascii=False)


def _size(value: int) -> str:
    for unit, bits in _UNITS:
        if value and value % (1 << bits) == 0:
            return f"{value >> bits}{unit}"
    return str(value)


def _masked(key: str, text: str) -> str:
    if any(word in key for word in _SECRETS) and not key.endswith("_file"):
        return MASK if text else text
    return _without_password(text) if key == "database_url" else text


def _without_password(url: str) -> str:
    """A URL stays one; other connection strings are written anew."""
    try:
        password = psycopg.conninfo.conninfo_to_dict(url).get("password")
    except psycopg.Error:
        return MASK  # whatever it is, it may hold a password
    if not password:
        return url
    scheme, separator, rest = url.partition("://")
    if separator and "@" in rest:
        login, _, place = rest.rpartition("@")
        url = f"{scheme}://{login.partition(':')[0]}:{MASK}@{place}"
    found = psycopg.conninfo.conninfo_to_dict(url)
    if found.get("password") == MASK:
        return url
    return psycopg.conninfo.make_conninfo("", **(found | {"password": MASK}))
