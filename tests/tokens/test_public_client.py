"""An unmodified public client of vLLM's tokenize API against a real server: lm-eval's RemoteTokenizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import unavailable
from tests.relay_server import ROOT, RelayServer

# The wheel alone: its module needs numpy, requests, PyYAML and Jinja2, which are here; its dependencies are 200 MB more.
CLIENT = "lm-eval==0.4.13 --hash=sha256:5daaa1973bf874005f64f28d3834b875f6886f0d6475878e6a6c821994a5286a"
FOLDER = ROOT / ".cache" / "clients" / "lm-eval-0.4.13"
SCRIPT = """
import json, sys
from lm_eval.utils import RemoteTokenizer, check_remote_tokenizer_support
url, key = sys.argv[1:]
client = RemoteTokenizer(url + "/v1/completions", auth_token=key)
text = "hello world, 世界 👍🏽"
ids = client.encode(text)
print(json.dumps([check_remote_tokenizer_support(url, auth_token=key), ids, client.decode(ids) == text, client.eos_token_id]))
"""


def fetched() -> Path:
    """The client's folder, fetched once. Skips where it can't be had; with CI=true it fails."""
    if not (FOLDER / "lm_eval").is_dir():
        wanted = FOLDER.parent / "lm-eval.txt"
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.write_text(CLIENT)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", "--target", str(FOLDER), "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode:
            unavailable(f"lm-eval could not be fetched: {done.stderr.strip()[-300:]}")
    return FOLDER


def test_lm_evals_remote_tokenizer_works_with_another_address_alone(relay: RelayServer) -> None:
    environment = {**os.environ, "PYTHONPATH": str(fetched()), "NO_PROXY": "*"}
    command = [sys.executable, "-c", SCRIPT, relay.url, relay.api_key]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    supported, ids, same, end_of_text = json.loads(done.stdout)
    with relay.http() as http:
        body = {"model": "gpt2", "text": "hello world, 世界 👍🏽"}
        assert ids == http.post("/api/v1/tokens/encode", json=body).json()["ids"]
    assert (supported, same, end_of_text) == (True, True, 50256)
