"""What every page shares: theme, version, role, and the words that scripts say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dashboard.roles import may, role_of
from relay import __version__

THEMES = ("light", "dark")


def render_page(request: HttpRequest, template: str, context: Mapping[str, Any], status: int = 200) -> HttpResponse:
    """Renders a page with what its frame needs: `theme`, `version`, `role`, `may_operate`, `may_admin`, `frame_words`."""
    theme = request.COOKIES.get("theme")
    shell = {
        "theme": theme if theme in THEMES else "",
        "version": __version__,
        "role": role_of(request.user),
        "may_operate": may(request.user, "operator"),
        "may_admin": may(request.user, "admin"),
        "frame_words": quoted_json(frame_words()),
    }
    return render(request, template, {**shell, **context}, status=status)


def quoted_json(value: Any) -> SafeString:
    """JSON for an attribute in single quotes: `"` stays as it is, which halves the length of a list of words."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return SafeString(text.replace("&", "&amp;").replace("'", "&#39;"))


def frame_words() -> dict[str, str]:
    """What the scripts of every page say, in the reader's language; `%(name)s` is filled in by the script."""
    return {
        "live": _("Live"),
        "frozen": _("Frozen"),
        "lost": _("Lost"),
        "undo": _("Undo"),
        "undone": _("Undone"),
        "close": _("Close"),
        "copied": _("Copied"),
        "resized": _("capacity %(from)s → %(to)s"),
        "paused": _("paused"),
        "resumed": _("resumed"),
        "drained": _("draining"),
        "not-sent": _("Not sent: the service did not answer. Try again."),
    }


def who(change: Mapping[str, Any]) -> str:
    """Who made a change, in words: a person by name, a key, a command or the sizing as such."""
    if (change["actor_kind"], change["actor"]) == ("system", "sizing"):
        return _("sizing")
    kinds = {"key": _("key %(name)s"), "command": _("command %(name)s"), "system": _("system %(name)s")}
    return kinds.get(change["actor_kind"], "%(name)s") % {"name": change["actor"]}


def own_path(path: str) -> str:
    """A path of this site to go on to; the overview for anything else."""
    own = path.startswith("/") and url_has_allowed_host_and_scheme(path, allowed_hosts=None)
    return path if own else reverse("overview")
