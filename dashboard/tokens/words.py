"""What the page says of changing numbers, as patterns in the reader's language; its script fills in the same ones."""

from __future__ import annotations

from django.utils.translation import gettext as _

from dashboard.words import Phrases


def phrases() -> Phrases:
    """Everything that the live part of the page can say."""
    return {
        "rest": _("Nothing is counted now"),
        "flow": _("Tokens flow, %(percent)s %% from a cache"),
        "window": _("over the last 60 s"),
        "a-request": _("%(count)s a request"),
        "by-level": _("texts %(text)s %%, segments %(segment)s %%, Redis %(shared)s %%"),
        "tiers": _("texts %(text)s %%, segments %(segment)s %%, Redis %(shared)s %%, computed %(computed)s %%"),
        "nothing": _("nothing in the last 60 s"),
        "zone": _("Times in %(zone)s"),
        "too-long": _("The playground takes up to %(most)s characters. Send longer texts to the API."),
        "characters": [_("One character"), _("%(count)s characters")],
        "empty": _("Counted as you type"),
        "typed": _("%(characters)s. Counted as you type"),
        "long": _("%(characters)s. Press Count"),
    }


def level_names() -> dict[str, str]:
    """The levels, as bars and legends name them."""
    return {
        "text": _("whole text"),
        "segment": _("segments"),
        "shared": _("Redis"),
        "computed": _("computed"),
    }


def source_names() -> dict[str, str]:
    """Where an answer came from, by request."""
    return {
        "cache": _("all from a cache"),
        "partial": _("some reused"),
        "computed": _("all computed"),
    }


def state_names() -> dict[str, str]:
    """What a model's tokenizer is doing."""
    return {
        "ready": _("Ready"),
        "loading": _("Loading"),
        "failed": _("Failed"),
        "idle": _("Idle"),
        "estimate": _("Estimated"),
    }
