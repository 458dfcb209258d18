"""Loads a large tokenizer in a process of its own, `python -m relay.tokens.child PLACE`, and hands it over.

Parsing, comparing and proving a vocabulary of 200,000 takes 7 s that hold the GIL (measured: the event loop stood still for
seconds at a time). Only the finished backend is built in the server itself: 0.3 s for 100,000 entries, 0.7 s for 200,000, in
which the library lets nobody else work.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from relay.tokens.document import Document
from relay.tokens.sources import Loaded, SourceFault, load_from

PAUSE_S = 0.05  # between two backends, for what has waited
TIMEOUT_S = 600
EMPTY_MODEL = {"type": "BPE", "vocab": {}, "merges": []}
ROOT = Path(__file__).resolve().parents[2]


def load_in_child(place: Path) -> Loaded:
    """As `load_from`. For a thread. Raises SourceFault."""
    command = [sys.executable, "-m", "relay.tokens.child", str(place.absolute())]
    try:
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SourceFault(f"It was not loaded within {TIMEOUT_S} s.") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SourceFault(f"The process that loads it ended with {done.returncode}: {''.join(last)[:300]}")
    found = unpacked(done.stdout)
    if isinstance(found, str):
        raise SourceFault(found)
    return found


def packed(found: Loaded | str) -> bytes:
    """A loaded tokenizer, or why there is none, for `unpacked`."""
    backends: dict[int, tuple[int, tokenizers.Tokenizer]] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing: Any) -> int | None:
            if not isinstance(thing, tokenizers.Tokenizer):
                return None
            return backends.setdefault(id(thing), (len(backends), thing))[0]

    rest = io.BytesIO()
    Pickler(rest).dump(found)
    return pickle.dumps((_with_shares([backend for _, backend in backends.values()]), rest.getvalue()))


def _with_shares(backends: list[tokenizers.Tokenizer]) -> list[tuple[str, int | None]]:
    """Backends of one model need it once: it is most of the memory and of the time."""
    documents = [json.loads(backend.to_str()) for backend in backends]
    found: list[tuple[str, int | None]] = []
    for document in documents:
        # only one without added tokens can be put together from its parts alone
        owner = None if document["added_tokens"] else _owner(documents, document)
        found.append((json.dumps(document if owner is None else document | {"model": EMPTY_MODEL}), owner))
    return found


def _owner(documents: list[Document], document: Document) -> int | None:
    """Another document that has the same model, and added tokens: such a one is always sent whole."""
    for place, other in enumerate(documents):
        if other["added_tokens"] and other["model"] == document["model"]:
            return place
    return None


def unpacked(data: bytes) -> Loaded | str:
    """What `packed` was given, by this program's own child."""
    texts, rest = pickle.loads(data)  # noqa: S301
    backends: dict[int, tokenizers.Tokenizer] = {}
    for place in sorted(range(len(texts)), key=lambda place: texts[place][1] is not None):
        text, owner = texts[place]
        backends[place] = _built(text, owner, backends)
        time.sleep(PAUSE_S)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> tokenizers.Tokenizer:
            return backends[pid]

    found: Loaded | str = Unpickler(io.BytesIO(rest)).load()
    return found


def _built(text: str, owner: int | None, backends: Mapping[int, tokenizers.Tokenizer]) -> tokenizers.Tokenizer:
    parsed = tokenizers.Tokenizer.from_buffer(text.encode())
    if owner is None:
        return parsed
    made = tokenizers.Tokenizer(backends[owner].model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if getattr(parsed, part) is not None:
            setattr(made, part, getattr(parsed, part))
    return made


def main() -> None:
    """The child: standard output is for the answer alone, whatever a library prints."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    found: Loaded | str
    try:
        found = load_from(Path(sys.argv[1]))
    except SourceFault as fault:
        found = str(fault)
    except BaseException as error:  # a panic of the tokenizers library is no Exception
        found = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    with answer:
        answer.write(packed(found))


if __name__ == "__main__":
    main()
