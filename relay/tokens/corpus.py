"""Documents of a corpus: text files, lines, JSONL, folders, standard input. Reads; what a document is for others to know.

Nothing here stops at a document that cannot be read: it comes out with its fault, named by file and line.
"""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from msgspec import Meta, Struct

from relay.http import TOKENS_BODY_LIMIT

Kind = Literal["text", "lines", "jsonl"]

STDIN = "-"
JSONL = frozenset({".jsonl", ".ndjson"})
DOCUMENT_LIMIT = TOKENS_BODY_LIMIT  # bytes: what the API takes at most
_SNIFFED = 8192

_object = msgspec.json.Decoder(dict[str, Any])


class CorpusFault(Exception):
    """A corpus that cannot be begun; the message says why."""


class Input(Struct, frozen=True):
    """One file, or standard input (`-`). `size` in bytes, None where unknown; `key` changes when the file does."""

    path: str
    kind: Kind
    size: int | None
    key: str | None


class Place(Struct, frozen=True):
    """How far a file was read: documents, lines and bytes; `whole`: to its end."""

    documents: int = 0
    line: int = 0
    offset: int = 0
    whole: bool = False


class Chat(Struct):
    """What a line with a chat holds."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None


class Document(Struct):
    """One document: its `text`, or its chat's `messages` and `tools`, or why it has neither (`fault`); and the place after it."""

    name: str
    place: Place
    text: str = ""
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    fault: str = ""


def inputs(paths: Iterable[str], *, lines: bool, field: str | None) -> list[Input]:
    """The files that these paths name; folders with everything in them that is text and not hidden, by name.

    `lines`: a line is a document; `field`: a line is a JSON object. Raises CorpusFault.
    """
    found: list[Input] = []
    for path in paths:
        if path == STDIN:
            found.append(Input(STDIN, _kind(path, lines, field), None, None))
        elif Path(path).is_dir():
            found += [_input(each, lines, field) for each in _files(Path(path)) if _is_text(each)]
        else:
            found.append(_input(Path(path), lines, field))
    return found


def documents(source: Input, field: str, begin: Place) -> Iterator[Document]:
    """The documents of one input from a place on. Raises CorpusFault if it cannot be read."""
    if source.path == STDIN:
        yield from _documents(source, sys.stdin.buffer, field, begin)
        return
    try:
        with Path(source.path).open("rb") as stream:
            stream.seek(begin.offset)
            yield from _documents(source, stream, field, begin)
    except OSError as error:
        raise CorpusFault(f"{source.path}: {error.strerror}.") from None


def _documents(source: Input, stream: BinaryIO, field: str, begin: Place) -> Iterator[Document]:
    if source.kind == "text":
        yield _whole(source.path, stream)
        return
    number, line, offset = begin.documents, begin.line, begin.offset
    while data := stream.readline(DOCUMENT_LIMIT + 1):
        too_long = len(data) > DOCUMENT_LIMIT
        offset += len(data)
        while too_long and not data.endswith(b"\n") and (data := stream.readline(DOCUMENT_LIMIT)):
            offset += len(data)
        line += 1
        if line == 1:
            data = data.removeprefix(BOM_UTF8)
        if not data.strip():
            continue
        number += 1
        document = Document(f"{source.path}:{line}", Place(number, line, offset))
        if too_long:
            document.fault = _too_long()
        elif source.kind == "lines":
            _take_text(document, data.removesuffix(b"\n").removesuffix(b"\r"))
        else:
            _take_object(document, data, field)
        yield document


def _whole(name: str, stream: BinaryIO) -> Document:
    data = stream.read(DOCUMENT_LIMIT + 1)
    document = Document(name, Place(1, 0, len(data), whole=True))
    if len(data) > DOCUMENT_LIMIT:
        document.fault = f"{_too_long()} With --lines each line is a document of its own."
    else:
        _take_text(document, data.removeprefix(BOM_UTF8))  # editors put the mark there; it is no part of the text
    return document


def _too_long() -> str:
    return f"longer than {DOCUMENT_LIMIT >> 20} MiB, which is not counted in one piece."


def _take_text(document: Document, data: bytes) -> None:
    try:
        document.text = data.decode()
    except UnicodeDecodeError as error:
        document.fault = f"not UTF-8 text (byte {error.start})."


def _take_object(document: Document, data: bytes, field: str) -> None:
    try:
        found = _object.decode(data)
    except msgspec.DecodeError as error:  # of which ValidationError is one
        document.fault = f"not a JSON object ({error})."
        return
    value = found.get(field)
    if isinstance(value, str):
        document.text = value
    elif field not in found and "messages" in found:
        _take_chat(document, found)
    elif field in found:
        document.fault = f"{field!r} is not a text."
    else:
        document.fault = f"has neither {field!r} nor messages. --field names the field that holds the text."


def _take_chat(document: Document, found: dict[str, Any]) -> None:
    try:
        chat = msgspec.convert(found, Chat)
    except msgspec.ValidationError as error:
        document.fault = f"not a chat ({error})."
    else:
        document.messages, document.tools = chat.messages, chat.tools


def _kind(path: str, lines: bool, field: str | None) -> Kind:
    if field is not None or Path(path).suffix.lower() in JSONL:
        return "jsonl"
    return "lines" if lines else "text"


def _input(path: Path, lines: bool, field: str | None) -> Input:
    try:
        about = path.stat()
    except OSError as error:
        raise CorpusFault(f"{path}: {error.strerror}.") from None
    identity = f"{path.resolve()}\0{about.st_size}\0{about.st_mtime_ns}"
    key = blake2b(identity.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return Input(str(path), _kind(str(path), lines, field), about.st_size, key)


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(root, name)


def _is_text(path: Path) -> bool:
    """Whether a file that nobody named is worth reading: a regular one without a zero byte at its beginning."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return b"\0" not in stream.read(_SNIFFED)
    except OSError:
        return True  # its fault is told when it is read
