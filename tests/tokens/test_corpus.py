"""What the documents of a corpus are, and which of them cannot be read."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.tokens import corpus
from relay.tokens.corpus import CorpusFault, Document, Place, documents, inputs

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of the test's folder."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def read(*paths: Path | str, lines: bool = False, field: str | None = None) -> list[Document]:
    found = inputs(map(str, paths), lines=lines, field=field)
    return [each for source in found for each in documents(source, field or "text", Place())]


def texts(*paths: Path | str, lines: bool = False, field: str | None = None) -> list[str]:
    found = read(*paths, lines=lines, field=field)
    assert [each.fault for each in found if each.fault] == []
    return [each.text for each in found]


def test_a_file_is_one_document_as_it_stands(write: Write) -> None:
    assert texts(write("a.txt", "one\r\ntwo\n")) == ["one\r\ntwo\n"]
    assert texts(write("b.txt", b"\xef\xbb\xbfmarked")) == ["marked"]
    assert texts(write("c.txt", "")) == [""]


def test_lines_are_documents_without_their_ends_and_without_the_empty_ones(write: Write) -> None:
    assert texts(write("a.txt", "one\r\n\n  two \n\nthree"), lines=True) == ["one", "  two ", "three"]


def test_a_folder_is_all_text_in_it_by_name_and_nothing_hidden(write: Write, tmp_path: Path) -> None:
    for name, content in (
        ("b/2.md", "2"),
        ("a/1.txt", "1"),
        (".git/x", "no"),
        (".env", "no"),
        ("c.jsonl", '{"text":"3"}'),
    ):
        write(name, content)
    write("picture.png", b"\x89PNG\0\0")
    os.mkfifo(tmp_path / "pipe")
    assert sorted(texts(tmp_path)) == ["1", "2", "3"]
    assert texts(tmp_path) == texts(tmp_path)


def test_jsonl_holds_texts_or_chats(write: Write) -> None:
    chat = [{"role": "user", "content": "hello"}]
    lines = [{"text": "one"}, {"messages": chat}, {"text": "two", "messages": chat}]
    found = read(write("a.jsonl", "\n".join(map(json.dumps, lines))))
    assert [(each.text, each.messages) for each in found] == [("one", None), ("", chat), ("two", None)]


def test_a_field_makes_any_file_jsonl(write: Write) -> None:
    assert texts(write("a.data", '{"prompt": "one", "text": "no"}\n'), field="prompt") == ["one"]


def test_what_cannot_be_read_is_named_by_line_and_the_rest_goes_on(write: Write) -> None:
    rows = [
        b'{"text": "one"}',
        b"nonsense",
        b'{"text": 3}',
        b'{"other": "x"}',
        b'{"text": "\\ud800"}',
        b'{"messages": "hello"}',
        b'{"text": "two"}',
    ]
    path = write("a.jsonl", b"\n".join(rows))
    found = read(path)
    assert [each.text for each in found if not each.fault] == ["one", "two"]
    assert {each.name: each.fault.split(" (")[0] for each in found if each.fault} == {
        f"{path}:2": "not a JSON object",
        f"{path}:3": "'text' is not a text.",
        f"{path}:4": "has neither 'text' nor messages. --field names the field that holds the text.",
        f"{path}:5": "not a JSON object",
        f"{path}:6": "not a chat",
    }
    (latin,) = read(write("latin.txt", "café".encode("latin-1")))
    assert latin.fault == "not UTF-8 text (byte 3)."


def test_a_document_too_long_is_a_fault_and_the_next_line_is_read(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "DOCUMENT_LIMIT", 10)
    path = write("a.txt", b"x" * 35 + b"\nshort\n" + b"y" * 10)
    found = read(path, lines=True)
    assert [(each.text, bool(each.fault)) for each in found] == [("", True), ("short", False), ("y" * 10, False)]
    assert [bool(each.fault) for each in read(path)] == [True]


def test_reading_goes_on_at_any_place(write: Write) -> None:
    path = write("a.txt", "one\n\ntwo\nthree\n")
    (source,) = inputs([str(path)], lines=True, field=None)
    whole = list(documents(source, "text", Place()))
    for index, document in enumerate(whole):
        assert list(documents(source, "text", document.place)) == whole[index + 1 :]
    assert [each.name for each in whole] == [f"{path}:1", f"{path}:3", f"{path}:4"]


def test_a_changed_file_has_another_key(write: Write) -> None:
    path = str(write("a.txt", "one"))
    (before,) = inputs([path], lines=False, field=None)
    assert inputs([path], lines=False, field=None) == [before]
    os.utime(path, ns=(1, 1))
    assert inputs([path], lines=False, field=None) != [before]


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(b"one\ntwo\n")

    monkeypatch.setattr("sys.stdin", Input)
    assert texts("-", lines=True) == ["one", "two"]


def test_a_missing_file_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(CorpusFault, match=r"nowhere\.txt: No such file"):
        inputs([str(tmp_path / "nowhere.txt")], lines=False, field=None)
