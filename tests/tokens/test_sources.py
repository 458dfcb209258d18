"""Where tokenizers come from: gpt2 from its package, folders, and two ways of loading that are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.tokens import gpt2 as gpt2_files
from relay.tokens.probes import probes
from relay.tokens.registry import ModelSpec
from relay.tokens.sources import SourceFault, load
from tests.tokens import families
from tests.tokens.desk import GPT2


def test_gpt2_is_written_once_and_repaired_when_damaged(tmp_path: Path) -> None:
    folder = gpt2_files.prepare(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    stamps = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    gpt2_files.prepare(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps
    (folder / "vocab.json").write_text("{}")
    gpt2_files.prepare(tmp_path)
    assert len(json.loads((folder / "vocab.json").read_text())) == 50257


def test_gpt2_is_compared_with_what_auto_tokenizer_makes(tmp_path: Path) -> None:
    assert load(GPT2, tmp_path).checked == "raw tokenizer; AutoTokenizer agrees on 400 strings"


def test_a_folder_whose_two_tokenizers_differ_says_so_and_uses_the_file(tmp_path: Path) -> None:
    folder = families.written(families.word_piece(), tmp_path / "model")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    )
    loaded = load(ModelSpec("m", "path", str(folder)), tmp_path)
    assert loaded.tokenizer.encode(["HELLO"])[0].ids.tolist() == [4]
    assert "AutoTokenizer" in loaded.checked


def test_a_lone_tokenizer_json_is_enough(tmp_path: Path) -> None:
    families.byte_bpe().save(str(tmp_path / "tokenizer.json"))
    loaded = load(ModelSpec("m", "path", str(tmp_path)), tmp_path)
    assert loaded.tokenizer.decode(loaded.tokenizer.encode(["hello world"])[0].ids.tolist()) == "hello world"
    assert loaded.checked.startswith("raw tokenizer")


def test_a_damaged_file_is_a_fault_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Unheard"}}')
    with pytest.raises(SourceFault) as caught:
        load(ModelSpec("m", "path", str(tmp_path)), tmp_path)
    assert "\n" not in str(caught.value)


def test_the_strings_that_are_compared_are_many_and_different() -> None:
    assert probes() == probes()
    assert len(set(probes())) > 390
