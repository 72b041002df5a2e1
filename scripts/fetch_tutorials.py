"""Fetch Triton's tutorials, by pinned commit and hash, into the cache of the third-party inputs.

    python scripts/fetch_tutorials.py [--clone DIR] [--cache DIR]

They come from GitHub, or without a network from a clone of github.com/triton-lang/triton that has
the commit. They are run as they are by tests/e2e/test_triton_tutorials.py and verify_tutorials.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from fetch_inputs import get_cache

__all__ = ["TUTORIALS", "fetch", "get_folder"]

# Triton's main branch of 2026-08-22, between 3.8.0 and 3.9.0, which has no newer text of them.
COMMIT = "f4fca2c0bc0e19930d2be76bb06ee7b232b60e86"
TUTORIALS = {
    "01-vector-add.py": "842430949e0ccde4fbce07606cce3ac4bac36bf21b2b12619a31b795ca4029b3",
    "02-fused-softmax.py": "8a65b696d5b02a3900380395ecd883671afeb66328db108f55622ed8853a05da",
    "03-matrix-multiplication.py": (
        "f88a9506694c58d483ad3cdb4aa672c23df0300803bcfaca13b9396184825008"
    ),
    "04-low-memory-dropout.py": "43ea69769349d20654fe7bb983e60ad9c38591d195891caf3a56053d9b0ab788",
    "05-layer-norm.py": "241f9f74e2f18567b26f3b4cf9b9873ae859150ccd10976d65d38fe24896d1d2",
    "06-fused-attention.py": "b3e39b472b1ed0c2fe51b99f92eff1e44557ca7daded20bddb5c69d2e2c1c172",
}
_FOLDER = "python/tutorials"
_MAX_BYTES = 1 << 20
_TIME_LIMIT_S = 60


def get_folder(cache: Path) -> Path:
    """Where the tutorials of the pinned commit are kept."""
    return cache / f"triton-tutorials-{COMMIT[:12]}"


def _read_from_clone(clone: Path, name: str) -> bytes:
    command = ["git", "-C", str(clone), "show", f"{COMMIT}:{_FOLDER}/{name}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"fetch_tutorials: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _read_from_github(name: str) -> bytes:
    url = f"https://raw.githubusercontent.com/triton-lang/triton/{COMMIT}/{_FOLDER}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=_TIME_LIMIT_S) as answer:
            data: bytes = answer.read(_MAX_BYTES)
    except (urllib.error.URLError, TimeoutError) as error:
        raise SystemExit(f"fetch_tutorials: {url} could not be fetched: {error}") from error
    return data


def fetch(cache: Path, clone: Path | None = None) -> Path:
    """The folder with all tutorials; what is there with the right hash is not fetched again."""
    folder = get_folder(cache)
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha256 in TUTORIALS.items():
        target = folder / name
        if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == sha256:
            continue
        data = _read_from_clone(clone, name) if clone else _read_from_github(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise SystemExit(f"fetch_tutorials: {name} is not the file that is pinned")
        partial = target.with_name(f"{name}.{os.getpid()}.partial")
        partial.write_bytes(data)
        partial.rename(target)
        print(f"fetch_tutorials: {name}", file=sys.stderr)
    return folder


def main() -> None:
    """Fetch the tutorials and print where they are."""
    parser = argparse.ArgumentParser(description="Fetch Triton's tutorials by pinned hash")
    parser.add_argument("--cache", type=Path, default=get_cache(), help="cache folder")
    parser.add_argument("--clone", type=Path, help="a clone of Triton to take them from")
    arguments = parser.parse_args()
    print(fetch(arguments.cache, arguments.clone))


if __name__ == "__main__":
    main()
