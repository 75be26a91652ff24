"""What the configuration says of the service, with the files read and the rules of safety held."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prover.config import ConfigurationInvalid, Daemon

from .address import Address, parse, parse_all
from .errors import ListenInsecure

MIN_TOKEN = 16  # characters


@dataclass(frozen=True, slots=True)
class Tls:
    """A server's certificate (with its chain) and its key; both PEM."""

    certificate: bytes
    key: bytes
    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How the service is reached."""

    listen: tuple[Address, ...] = ()
    status_listen: Address | None = None
    token: str | None = None
    tls: Tls | None = None
    max_message: int = 128 << 20  # bytes
    status_origin: str = ""


def options(daemon: Daemon) -> ServiceOptions:
    """Raises ListenInsecure, and ConfigurationInvalid for a file that cannot be used."""
    found = ServiceOptions(
        parse_all(daemon.listen), parse(daemon.status_listen) if daemon.status_listen else None,
        _token(daemon.token_file), _tls(daemon), daemon.max_message, daemon.status_origin,
    )  # fmt: skip
    if not daemon.allow_insecure:
        for field, addresses in (("listen", found.listen), ("status_listen", (found.status_listen,))):
            _refuse_insecure(found, f"daemon.{field}", [address for address in addresses if address is not None])
    return found


def _refuse_insecure(found: ServiceOptions, field: str, addresses: list[Address]) -> None:
    for address in addresses:
        if not address.is_local and (found.token is None or found.tls is None):
            missing = " and ".join(
                ["a token (daemon.token_file)"] * (found.token is None)
                + ["TLS (daemon.tls_certificate, daemon.tls_key)"] * (found.tls is None)
            )
            raise ListenInsecure(
                f"{address} is reached by other machines and has not {missing}; daemon.allow_insecure = true lets it",
                field=field,
            )


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = _read(path, "daemon.token_file").decode(errors="replace").strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        text = f"{path}: a token is at least {MIN_TOKEN} printable ASCII characters without blanks"
        raise ConfigurationInvalid(text, field="daemon.token_file")
    return token


def _tls(daemon: Daemon) -> Tls | None:
    certificate, key = daemon.tls_certificate, daemon.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "tls_key" if key is None else "tls_certificate"
        raise ConfigurationInvalid("TLS needs a certificate and its key", field=f"daemon.{missing}")
    return Tls(_read(certificate, "daemon.tls_certificate"), _read(key, "daemon.tls_key"), certificate, key)


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationInvalid(f"{path}: {error.strerror}", field=field) from error
