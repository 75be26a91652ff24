"""Where the database of a running `cuzk up` is, for the other commands on the same machine."""

from __future__ import annotations

import os
from pathlib import Path

from .roles import DAEMON, DATABASE

ROOT = Path(__file__).resolve().parent.parent.parent
_PORT_LINE, _STATE_LINE = 3, 7  # of postmaster.pid, from 0


def home_folder() -> Path:
    """The folder of all state: CUZK_HOME, or ./var beside the project."""
    return Path(os.environ.get("CUZK_HOME") or ROOT / "var")


def database_url(home: Path) -> str | None:
    """The URL for a prover's login; None when no server runs over `home`, or its secrets are not for us to read."""
    try:
        lines = (home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
        secret = (home / "secrets" / DAEMON).read_text().strip()
    except OSError:
        return None
    if len(lines) <= _STATE_LINE or lines[_STATE_LINE].strip() != "ready":
        return None
    return f"postgresql://{DAEMON}:{secret}@127.0.0.1:{int(lines[_PORT_LINE])}/{DATABASE}"
