"""Django's settings, all from the environment. Login is required by default; nothing secret has a default."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from cuzk_web import env

BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = env.boolean("CUZK_DEBUG", False)
SECRET_KEY = env.secret("CUZK_SECRET_KEY")
if not SECRET_KEY:
    raise ImproperlyConfigured("CUZK_SECRET_KEY (or CUZK_SECRET_KEY_FILE) is not set; `make up` generates one")
ALLOWED_HOSTS = env.names("CUZK_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.names("CUZK_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "cuzk_web.fleet",
    "cuzk_web.live",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "cuzk_web.security.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "cuzk_web.urls"
ASGI_APPLICATION = "cuzk_web.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": env.database(os.environ.get("DATABASE_URL", "postgresql:///cuzk"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "live"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(os.environ.get("CUZK_STATIC_ROOT", BASE_DIR / "staticfiles"))
# Static files are few and small: served from where they lie, and asked for again each time (304), so that a page
# never runs modules of two versions.
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
