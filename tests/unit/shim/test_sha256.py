from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "shim" / "sha256.c"


def test_sha256_of_every_tail_length_is_hashlibs(tmp_path: Path) -> None:
    library = tmp_path / "sha256.so"
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", SOURCE, "-o", str(library)], check=True)
    sha256 = ctypes.CDLL(str(library)).sha256
    digest = ctypes.create_string_buffer(32)

    for size in [*range(200), 1 << 20]:
        data = bytes(i * 7 & 255 for i in range(size))
        sha256(data, ctypes.c_size_t(size), digest)
        assert digest.raw == hashlib.sha256(data).digest(), size
