"""The memory of a whole process under a flood of texts never seen before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from relay.tokens.tokenizer import Tokenizer

BOUND_MB = 16


def flooded(data_dir: Path, kind: str) -> tuple[float, float]:
    """By how many MB the process grew at most, and how many its caches said that they held at the end."""
    command = [sys.executable, "-m", "tests.tokens.flood", str(data_dir), kind, str(BOUND_MB)]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    grown, held = map(float, done.stdout.split())
    return grown, held


def test_the_caches_take_no_more_than_they_may(token_data: Path, gpt2: Tokenizer) -> None:
    grown, held = flooded(token_data, "texts")
    assert held > 0.95 * BOUND_MB, "they were full"
    assert grown < 1.2 * BOUND_MB


def test_case_12_a_million_new_words_do_not_pile_up(token_data: Path, gpt2: Tokenizer) -> None:
    grown, _ = flooded(token_data, "words")
    assert grown < 150
