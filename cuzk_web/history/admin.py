"""How long things are kept, for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest

from .models import Retention

if TYPE_CHECKING:  # the class takes no parameter when it runs
    Base = admin.ModelAdmin[Retention]
else:
    Base = admin.ModelAdmin


@admin.register(Retention)
class RetentionAdmin(Base):
    """The days can be changed; what there is to keep is given."""

    list_display = ("name", "days", "meaning", "reached")
    readonly_fields = ("name", "meaning", "reached")
    fields = ("name", "meaning", "days", "reached")
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Retention | None = None) -> bool:
        """Nobody."""
        return False
