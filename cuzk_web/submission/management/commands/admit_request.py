"""`manage.py admit_request`: the child of `submission.child`."""

from __future__ import annotations

import json
import resource
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db import Error

from cuzk_web.faults import fault
from cuzk_web.patience import serve_patiently
from cuzk_web.submission.child import CPU_LIMIT, MEMORY_LIMIT
from cuzk_web.submission.intake import Submitter, admit
from prover.errors import CuzkError


class Command(BaseCommand):
    """Answers one JSON object on stdout: the job, or the code, message and field of the error."""

    help = "Make a job of a request file, on behalf of an account (used by the web process for large requests)."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("path", type=Path)
        parser.add_argument("user_id", type=int)
        parser.add_argument("username")
        parser.add_argument("--request-id")

    def handle(self, *args: Any, **options: Any) -> None:
        """Errors of the request, and of the database, are an answer; others end the process."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
        serve_patiently()
        by = Submitter(options["user_id"], options["username"])
        try:
            made = admit(options["path"].read_bytes(), by, options["request_id"])
            answer: dict[str, Any] = {"job": str(made.job), "number": made.number, "created": made.created}
        except CuzkError as error:
            answer = _described(error)
        except Error as error:
            if (found := fault(error)) is None:
                raise
            answer = _described(found)
        self.stdout.write(json.dumps(answer))


def _described(error: CuzkError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "field": error.field}
