"""`manage.py ensure_admin`: make the first administrator, with a generated password."""

from __future__ import annotations

import os
import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction


class Command(BaseCommand):
    """Leaves an account that exists alone, its password too, unless `--reset` is given."""

    help = "Make an administrator with a generated password, unless the account exists."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--username", default="admin")
        parser.add_argument("--password-file", type=Path, help="write the password here (mode 0600), not to stdout")
        parser.add_argument("--reset", action="store_true", help="give an account that exists a new password")

    def handle(self, *args: Any, **options: Any) -> None:
        """Raises CommandError when the password file cannot be written; then no account is made or changed."""
        with transaction.atomic():
            password = _ensure(options["username"], options["reset"])
            if password is not None and options["password_file"]:
                _write_private(options["password_file"], password)
        if password is None:
            self.stdout.write(f"{options['username']} exists; its password is unchanged")
        elif options["password_file"]:
            self.stdout.write(f"the password of {options['username']} is in {options['password_file']}")
        else:
            self.stdout.write(password)


def _ensure(username: str, reset: bool) -> str | None:
    """The new password; None when the account was there and stays as it is."""
    users = get_user_model()._default_manager
    user = users.filter(username=username).first()
    if user is not None and not reset:
        return None
    password = secrets.token_urlsafe(18)
    user = user or get_user_model()(username=username)
    user.is_staff = user.is_superuser = user.is_active = True
    user.set_password(password)
    user.save()
    return password


def _write_private(path: Path, password: str) -> None:
    """A new file replaces an old one: an old one may be a link, or be open to others."""
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password + "\n")
    except OSError as error:
        raise CommandError(f"cannot write the password file: {error}") from error
