"""At most so many failed logins from an address, and at an account, in a window of time.

An attempt is counted before the password is looked at, by one atomic statement, so that parallel attempts through
several processes cannot slip by; a login that succeeds takes its count back. The account's limit is the higher one:
whoever wants to lock an account from one address is stopped by the address first.
"""

from __future__ import annotations

import hashlib
import ipaddress

from django.conf import settings
from django.db import connection
from django.db.models import F
from django.http import HttpRequest

from .models import LoginAttempts

WINDOW = 15 * 60  # seconds
PER_ADDRESS = 10
PER_ACCOUNT = 20

_COUNT = """
INSERT INTO login_attempts AS seen (key, count, since) VALUES (%(key)s, 1, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
  count = CASE WHEN seen.since < clock_timestamp() - %(window)s * interval '1 second' THEN 1 ELSE seen.count + 1 END,
  since = CASE WHEN seen.since < clock_timestamp() - %(window)s * interval '1 second' THEN clock_timestamp()
               ELSE seen.since END
RETURNING count, extract(epoch FROM since + %(window)s * interval '1 second' - clock_timestamp())
"""
_PURGE = "DELETE FROM login_attempts WHERE since < clock_timestamp() - 2 * %s * interval '1 second'"


def attempt(address: str, account: str) -> float | None:
    """Count an attempt that is about to be made. Returns the seconds to wait when it must not be made, else None."""
    for key, limit in ((_key("address", address), PER_ADDRESS), (_key("account", account), PER_ACCOUNT)):
        count, left = _count(key)
        if count > limit:
            return max(left, 1.0)
    return None


def succeeded(address: str, account: str) -> None:
    """Take the count back. An attacker's own good login does not clear what his address did before."""
    LoginAttempts.objects.filter(key=_key("account", account)).delete()
    LoginAttempts.objects.filter(key=_key("address", address), count__gt=0).update(count=F("count") - 1)


def client_address(request: HttpRequest) -> str:
    """The client's address (of IPv6 its /64); behind CUZK_PROXY_HOPS proxies, as the outermost of them saw it."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    if settings.PROXY_HOPS:
        seen = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        address = (seen[-settings.PROXY_HOPS] if len(seen) >= settings.PROXY_HOPS else seen[0]).strip() or address
    return _network(address)


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address):
        mapped = ip.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((int(ip), 64), strict=False))
    return str(ip)


def _key(scope: str, name: str) -> str:
    """Hashed: the length is bounded, and a password typed into the wrong field is not kept."""
    return f"{scope}:{hashlib.sha256(name.casefold().encode(errors='replace')).hexdigest()}"


def _count(key: str) -> tuple[int, float]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"key": key, "window": WINDOW})
        count, left = cursor.fetchone()
        if count == 1:
            cursor.execute(_PURGE, [WINDOW])
    return count, float(left)
