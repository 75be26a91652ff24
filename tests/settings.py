"""Django's settings for tests: those of the product, a key of this run, the database of `tests.postgres`."""

import os
import secrets

os.environ.setdefault("CUZK_SECRET_KEY", secrets.token_urlsafe())
os.environ.setdefault("DATABASE_URL", "postgresql://set-by-tests.postgres/cuzk")

from cuzk_web.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
