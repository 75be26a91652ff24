"""Large requests are read in a process of their own, so that the web process never holds one.

Parsing takes several times the memory of the file. A child takes it and gives it back; two at a time, others wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import structlog
from django.conf import settings

from prover.errors import CuzkError

from .errors import SubmissionBusy, SubmissionFailed
from .intake import Admitted, Submitter

AT_ONCE = 2
WAIT = 20  # seconds until somebody who waits is told to come back
TIME_LIMIT = 3600  # seconds for one request: most of it may be a slow link to the database
CPU_LIMIT = 300  # seconds of work for one request
MEMORY_LIMIT = 4 << 30  # bytes of address space

_places = threading.BoundedSemaphore(AT_ONCE)
_log = structlog.get_logger(__name__)


class Reported(CuzkError):
    """An error that the child met, as it described it."""

    def __init__(self, code: str, message: str, field: str | None) -> None:
        super().__init__(message, field=field)
        self.reported_code = code


def admit_file(path: Path, by: Submitter, request_id: str | None) -> Admitted:
    """As `intake.admit`, in a child. Raises SubmissionBusy, SubmissionFailed, or what the child met, as `Reported`."""
    if not _places.acquire(timeout=WAIT):
        raise SubmissionBusy
    try:
        answer = _run(path, by, request_id)
    finally:
        _places.release()
    if "code" in answer:
        raise Reported(answer["code"], answer["message"], answer["field"])
    return Admitted(uuid.UUID(answer["job"]), answer["number"], answer["created"])


def _run(path: Path, by: Submitter, request_id: str | None) -> dict[str, Any]:
    command = [sys.executable, "-m", "django", "admit_request"]
    if request_id is not None:
        command.append(f"--request-id={request_id}")  # in one word, and names after "--": either may begin with a dash
    command += ["--", str(path), str(by.id), by.name]
    try:
        done = subprocess.run(command, env=_environment(), capture_output=True, timeout=TIME_LIMIT, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError, OSError) as error:
        stderr = getattr(error, "stderr", None) or b""
        tail = stderr[-2000:].decode(errors="replace")
        _log.error("a request could not be checked", action="submission_failed", error=str(error), stderr=tail)
        raise SubmissionFailed from error
    return answer


def _environment() -> dict[str, Any]:
    """Ours, with the database that this process works on."""
    database: dict[str, Any] = settings.DATABASES["default"]
    login, name = f"{quote(database['USER'])}:{quote(database['PASSWORD'], safe='')}", quote(database["NAME"])
    parameters = {"host": database["HOST"], "port": database["PORT"], **database["OPTIONS"]}
    url = f"postgresql://{login}@/{name}?" + urlencode(parameters)
    paths = os.pathsep.join([str(settings.BASE_DIR), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"DATABASE_URL": url, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE}
