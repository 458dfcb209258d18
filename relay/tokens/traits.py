"""What a model's folder says beside its vocabulary: chat templates, the named special tokens, the context size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

# a "model_max_length" above this says that nobody set one
CONTEXT_MOST = 100_000_000


class Traits(Struct, frozen=True):
    """`templates`: Jinja sources by name, `default` first of all. `special_map`: `bos_token` and the like, for these."""

    templates: dict[str, str] = {}
    special_map: dict[str, str] = {}
    context_size: int | None = None

    def template(self, *, tools: bool = False) -> str | None:
        """The template for a chat, as transformers chooses it: that for tools if there is one and tools are given."""
        chosen = self.templates.get("tool_use") if tools else None
        return chosen or self.templates.get("default")


def traits_of(folder: Path, auto: Any) -> Traits:
    """Of what transformers made of the folder (None: it made nothing)."""
    if auto is None:
        return Traits()
    found = auto.chat_template or {}
    templates = {"default": found} if isinstance(found, str) else dict(found)
    return Traits(templates, dict(auto.special_tokens_map), _context_size(folder, auto.model_max_length))


def _context_size(folder: Path, declared: Any) -> int | None:
    """The tokenizer's own figure, else how many positions the model has."""
    try:
        positions = json.loads((folder / "config.json").read_bytes()).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        positions = None
    for size in (declared, positions):
        if isinstance(size, int) and 1 <= size <= CONTEXT_MOST:
            return size
    return None
