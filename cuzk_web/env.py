"""Settings from the environment that fail loudly: a bad value stops the start and names its variable."""

from __future__ import annotations

import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

CONNECT_S = 3  # for a connection to the database, by each of its addresses, unless its URL says otherwise


def boolean(name: str, default: bool) -> bool:
    """1/true/yes/on or 0/false/no/off, in any case."""
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() not in words:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(words)}, not {value!r}")
    return words[value.lower()]


def integer(name: str, default: int, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    value = os.environ.get(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}") from error
    if not low <= number <= high:
        raise ImproperlyConfigured(f"{name} must be from {low} to {high}, not {number}")
    return number


def secret(name: str) -> str | None:
    """The variable, or the text of the file that NAME_FILE points to, without blanks around it."""
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return os.environ.get(name)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE: {error}") from error


def names(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [part.strip() for part in os.environ.get(name, default).split(",") if part.strip()]


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """A comma-separated list of networks, such as 10.1.0.0/16, or addresses."""
    try:
        return [ip_network(part) for part in names(name)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be networks such as 10.1.0.0/16: {error}") from error


def origin(name: str) -> str:
    """A site's address, such as https://cuzk.example, without a slash at its end; "" when it is not set."""
    value = os.environ.get(name, "").rstrip("/")
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise ImproperlyConfigured(f"{name} must be like https://cuzk.example, not {value!r}")
    return value


def database(url: str) -> dict[str, object]:
    """Django's settings for postgresql://user:password@host:port/name?host=/socket/folder&sslmode=require.

    Parameters that have no setting of their own go to the driver as they are: none is dropped, sslmode least of all.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"DATABASE_URL must start with postgresql://, not {parts.scheme}://")
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "cuzk",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or query.pop("port", "")),
        "OPTIONS": {"connect_timeout": str(CONNECT_S)} | query,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
