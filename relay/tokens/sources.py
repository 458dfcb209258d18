"""From a configured model to its tokenizer: finds the files, loads them, compares two ways of loading. Slow: threads only.

The reference is the raw tokenizer (`tokenizer.json`, or GPT-2's two files); `AutoTokenizer` finds what a folder holds when
it has no `tokenizer.json`, and is otherwise compared, because its ids can differ from the file beside it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from msgspec import Struct

from relay.tokens import gpt2
from relay.tokens.document import Document
from relay.tokens.probes import probes
from relay.tokens.registry import ModelSpec
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.traits import Traits, traits_of

HUB_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "*.model",
    "*.tiktoken",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)

VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "*.tiktoken")

# of files; GPT-2's are 1.5 MB, and stop other threads for 0.1 s in all
SMALL_BYTES = 4 * 1024 * 1024

# importing and running transformers in several threads at once is not safe
_transformers = threading.Lock()


class SourceFault(Exception):
    """A tokenizer cannot be had; the message says why and what to do."""


class Loaded(Struct, frozen=True):
    """A tokenizer that is ready, in words how it was checked, and what stands beside it."""

    tokenizer: Tokenizer
    checked: str
    traits: Traits


def load(spec: ModelSpec, data_dir: Path, in_child: Callable[[Path], Loaded] | None = None) -> Loaded:
    """Loads, compares and warms one tokenizer. Takes up to minutes (hub). Raises SourceFault.

    `in_child`: what loads a large one. Nearly all of the work holds the GIL.
    """
    try:
        place = _locate(spec, data_dir)
        if in_child is not None and vocabulary_bytes(place) > SMALL_BYTES:
            return in_child(place)
        return load_from(place, packaged=spec.source == "package")
    except (SourceFault, gpt2.VocabularyMissing) as fault:
        raise SourceFault(str(fault)) from fault
    except Exception as error:
        raise SourceFault(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error


def network_allowed() -> bool:
    """Whether the hub may be asked: not if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set."""
    values = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return not any(value.strip().lower() in ("1", "true", "yes", "on") for value in values)


def _locate(spec: ModelSpec, data_dir: Path) -> Path:
    """The folder or file to load from."""
    if spec.source == "package":
        if spec.name != "gpt2":
            raise SourceFault(f"No installed package ships {spec.name}; gpt2 is the one that does. Use hub or path.")
        return gpt2.prepare(data_dir)
    if spec.source == "path":
        place = Path(spec.location).expanduser()
        if not spec.location or not place.exists():
            raise SourceFault(
                f"{spec.location or 'location'} does not exist. Set location to a folder or tokenizer.json."
            )
        return place
    return _from_hub(spec.location or spec.name, spec.revision or None)


def _from_hub(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    patterns = list(HUB_FILES)
    try:
        found = Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=True))
        if any(next(found.glob(pattern), None) for pattern in VOCABULARIES):
            return found
    except LocalEntryNotFoundError:
        pass
    if not network_allowed():
        raise SourceFault(
            f"{repository} is not in the local Hugging Face cache and HF_HUB_OFFLINE is set. Download it first."
        )
    return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))


def vocabulary_bytes(place: Path) -> int:
    """The size of the files that hold the vocabulary."""
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for pattern in VOCABULARIES for path in place.glob(pattern))


def load_from(place: Path, *, packaged: bool = False) -> Loaded:
    """Loads a folder or a tokenizer.json. Raises SourceFault, and whatever the libraries raise."""
    with _transformers:
        return _load_from(place, packaged=packaged)


def _load_from(place: Path, *, packaged: bool) -> Loaded:
    folder = place if place.is_dir() else place.parent
    document = _raw_document(place, packaged=packaged)
    try:
        auto = _auto(folder)
    except Exception as error:
        if document is None:
            raise
        checked = f"raw tokenizer; AutoTokenizer could not load it ({type(error).__name__})"
        return Loaded(_warm(document), checked, traits_of(folder, _plain_auto(folder)))
    if document is None:
        checked = "AutoTokenizer; there is no tokenizer.json to compare with"
        return Loaded(_warm(_backend_document(auto)), checked, traits_of(folder, auto))
    tokenizer = _warm(document)
    return Loaded(tokenizer, _compared(tokenizer, auto), traits_of(folder, auto))


def _backend_document(auto: Any) -> Document:
    backend = getattr(auto, "backend_tokenizer", None)
    if backend is None:
        raise SourceFault("The folder has no tokenizer.json and its tokenizer has no fast form.")
    parsed: Document = json.loads(backend.to_str())
    return parsed


def _compared(tokenizer: Tokenizer, auto: Any) -> str:
    texts = probes()
    mine = [encoded.ids.tolist() for encoded in tokenizer.encode(texts, allow_special=True)]
    its = auto(texts, add_special_tokens=False)["input_ids"]
    wrong = sum(a != list(b) for a, b in zip(mine, its, strict=True))
    if wrong:
        return f"raw tokenizer; AutoTokenizer differs on {wrong} of {len(texts)} strings"
    return f"raw tokenizer; AutoTokenizer agrees on {len(texts)} strings"


def _raw_document(place: Path, *, packaged: bool) -> Document | None:
    if packaged:
        found: Document = json.loads(gpt2.raw(place).to_str())
        return found
    path = place / "tokenizer.json" if place.is_dir() else place
    if not path.is_file():
        return None
    # through the library, so that an old file and its rewritten form are one tokenizer
    parsed: Document = json.loads(tokenizers.Tokenizer.from_file(str(path)).to_str())
    return parsed


def _auto(folder: Path) -> Any:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns that PyTorch is missing, which nothing needs
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, use_fast=True)


def _plain_auto(folder: Path) -> Any:
    """What reads the files beside a tokenizer of which AutoTokenizer knows no class; None if that fails too."""
    from transformers import PreTrainedTokenizerFast

    try:
        return PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    except Exception:
        return None


def _warm(document: Document) -> Tokenizer:
    tokenizer = Tokenizer(document)
    tokenizer.counts(probes(64))
    tokenizer.encode(probes(8), spans=True, add_special=True, allow_special=True)
    return tokenizer
