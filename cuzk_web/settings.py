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
    "cuzk_web.accounts.admin_app.CuzkAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "cuzk_web.fleet",
    "cuzk_web.live",
    "cuzk_web.history",
    "cuzk_web.submission",
    "cuzk_web.alerts",
    "cuzk_web.bridge",
    "cuzk_web.accounts",  # the last: after a migration it hands out the permissions of the others
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "cuzk_web.security.content_security_policy",
    "cuzk_web.static_files.StaticFilesMiddleware",
    "cuzk_web.submission.uploads.UploadLimitMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "cuzk_web.accounts.middleware.RoleRequiredMiddleware",
    "cuzk_web.security.AdminNulMiddleware",
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
                "cuzk_web.alerts.summary.in_header",
            ]
        },
    }
]
DATABASES = {"default": env.database(os.environ.get("DATABASE_URL", "postgresql:///cuzk"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
]

# https: by this server or by a proxy in front of it, which must then set X-Forwarded-For and X-Forwarded-Proto
HTTPS = env.boolean("CUZK_HTTPS", False)
PROXY_HOPS = env.integer("CUZK_PROXY_HOPS", 0, 0, 8)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PROXY_HOPS else None
SECURE_HSTS_SECONDS = env.integer("CUZK_HSTS_SECONDS", 365 * 24 * 3600, 0, 10 * 365 * 24 * 3600) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.boolean("CUZK_HSTS_SUBDOMAINS", False)
SECURE_HSTS_PRELOAD = env.boolean("CUZK_HSTS_PRELOAD", False)
SESSION_COOKIE_AGE = 3600 * env.integer("CUZK_SESSION_HOURS", 14 * 24, 1, 366 * 24)

# uploads go to disk as they arrive; submission.uploads refuses what is too large, or from who may not submit
FILE_UPLOAD_HANDLERS = ["cuzk_web.submission.uploads.BoundedUpload"]
FILE_UPLOAD_TEMP_DIR = os.environ.get("CUZK_UPLOAD_DIR")
DATA_UPLOAD_MAX_NUMBER_FILES = 1
SUBMISSION_MAX_BYTES = 1024 * 1024 * env.integer("CUZK_SUBMISSION_MAX_MIB", 128, 1, 1024)
SUBMISSION_OPEN_JOBS = env.integer("CUZK_SUBMISSION_OPEN_JOBS", 200, 1, 1_000_000)
SUBMISSION_BYTES_A_DAY = 1024 * 1024 * env.integer("CUZK_SUBMISSION_MIB_A_DAY", 4096, 1, 1024 * 1024)

# alerts: private networks that messages may go to, and how people reach this site
ALERT_NETWORKS = env.networks("CUZK_ALERT_NETWORKS")
SITE_URL = env.origin("CUZK_SITE_URL")

AUDIT_S = env.integer("CUZK_AUDIT_SECONDS", 15, 1, 3600)  # between looks whether the page is right

# Everything from a warning on goes to stderr; Django's own logging would only mail it. A 404 is no warning.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"django": {"handlers": [], "level": "WARNING"}, "django.request": {"level": "ERROR"}},
}

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
CSRF_FAILURE_VIEW = "cuzk_web.errors.csrf_failure"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "cuzk_web.locale"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = os.environ.get("CUZK_STATIC_ROOT")  # only for `collectstatic`, where another server hands files out
# Static files are few and small: served from where they lie, and asked for again each time (304), so that a page
# never runs modules of two versions.
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
