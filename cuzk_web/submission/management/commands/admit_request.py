"""`manage.py admit_request`: the child of `submission.child`."""

from __future__ import annotations

import json
import resource
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from cuzk_web.submission.child import MEMORY_LIMIT
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
        """Errors of the request are an answer; others end the process."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        by = Submitter(options["user_id"], options["username"])
        try:
            made = admit(options["path"].read_bytes(), by, options["request_id"])
            answer: dict[str, Any] = {"job": str(made.job), "number": made.number, "created": made.created}
        except CuzkError as error:
            answer = {"code": error.code, "message": error.message, "field": error.field}
        self.stdout.write(json.dumps(answer))
