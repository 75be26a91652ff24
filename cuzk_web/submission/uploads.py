"""Uploads go to disk as they arrive: no larger than the limit, and only from who may submit."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.core.files.uploadhandler import SkipFile, TemporaryFileUploadHandler
from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from cuzk_web import formats
from cuzk_web.accounts.roles import MAY_SUBMIT, allowed
from cuzk_web.errors import page

SLACK = 64 * 1024  # bytes of a form around its file


def body_limit() -> int:
    """The longest body of a request, in bytes."""
    return int(settings.SUBMISSION_MAX_BYTES) + SLACK


class UploadLimitMiddleware(MiddlewareMixin):
    """Refuses a body that is too long by its announced length, before anything of it is read."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """413 for a body over the limit."""
        length = request.META.get("CONTENT_LENGTH") or "0"
        if not (length.isascii() and length.isdigit()):
            return page(request, 400, "The length of the request makes no sense.")
        if int(length[:19]) > body_limit():
            given, allowed_size = formats.size(int(length[:19])), formats.size(settings.SUBMISSION_MAX_BYTES)
            text = f"request_too_large: {given} given, {allowed_size} allowed for the file of a request."
            return page(request, 413, text)
        return None


class BoundedUpload(TemporaryFileUploadHandler):
    """Writes a file to disk; throws away what comes from an account that may not submit."""

    file: TemporaryUploadedFile

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Raises SkipFile for who may not submit: the view then says why."""
        if self.request is None or not allowed(self.request.user, MAY_SUBMIT):
            raise SkipFile
        super().new_file(*args, **kwargs)
