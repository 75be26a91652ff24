"""Tables in the admin that are there to be read: nothing is added, changed, deleted, or counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from cuzk_web.live.templatetags.cuzk import badge

if TYPE_CHECKING:  # the class takes no parameter when it runs
    Base = admin.ModelAdmin[Model]
else:
    Base = admin.ModelAdmin

ROWS = 5000  # that can be paged through; older ones are found by filters and search


def one_of(parameter: str, words: Iterable[str] | Mapping[Any, str]) -> type[admin.SimpleListFilter]:
    """A filter by the words that a field can hold. Django's own would read the whole table to find them."""
    choices = list(words.items()) if isinstance(words, Mapping) else [(word, word) for word in words if word]

    class OneOf(admin.SimpleListFilter):
        title = parameter
        parameter_name = parameter

        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[Any, str]]:
            return choices

        def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
            known = {str(value) for value, _ in choices}
            return rows.filter(**{parameter: self.value()}) if self.value() in known else rows

    return OneOf


class FixedCountPaginator(Paginator):  # type: ignore[type-arg]  # takes no parameter when it runs
    """Never counts: a table of a year would take seconds."""

    @property
    def count(self) -> int:
        """As many rows as can be paged through."""
        return ROWS


class UncountedList(ChangeList):
    """A list that claims no number of results, because nobody counted them."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and call its length the number."""
        super().get_results(request)
        self.result_count = self.full_result_count = len(self.result_list)


class ReadOnly(Base):
    """A table that is not the web's."""

    paginator = FixedCountPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    actions: Any = []
    change_list_template = "admin/uncounted_list.html"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """The list of ours."""
        return UncountedList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """With the pages beside this one."""
        page = request.GET.get("p", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        beside = {"previous_page": number - 1, "next_page": number + 1}
        return super().changelist_view(request, beside | (extra_context or {}))

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    @admin.display(description="state", ordering="state")
    def badge(self, row: Any) -> SafeString:
        """The state."""
        return badge(row.state)
