"""Failed logins, counted where all web processes see them."""

from __future__ import annotations

from django.db import models


class LoginAttempts(models.Model):
    """Attempts of one address or at one account in the window that began at `since`."""

    key = models.CharField(primary_key=True, max_length=80, help_text="'address:' or 'account:' and a SHA-256")
    count = models.IntegerField()
    since = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "login_attempts"
