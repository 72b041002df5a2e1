"""Write the small code objects and bundles that scripts/fuzz_loader damages: FOLDER/*.object."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import zstandard

from asmevo.codeobject import toolchain

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


def bundle(image: bytes, arch: str) -> bytes:
    """An offload bundle with an empty host entry and `image`."""
    targets = (b"host-x86_64-unknown-linux-gnu-", f"hipv4-amdgcn-amd-amdhsa--{arch}".encode())
    start = len(BUNDLE_MAGIC) + 8 + sum(24 + len(target) for target in targets)
    header = BUNDLE_MAGIC + struct.pack("<Q", len(targets))
    for target, size in zip(targets, (0, len(image)), strict=True):
        header += struct.pack("<QQQ", start, size, len(target)) + target
    return header + image


def compress(data: bytes) -> bytes:
    """A compressed bundle of version 2, zstd."""
    body = zstandard.compress(data)
    return b"CCOB" + struct.pack("<HHIIQ", 2, 1, 24 + len(body), len(data), 0) + body


def main() -> None:
    """One object of each kind for each fixture and architecture."""
    folder = Path(sys.argv[1])
    for arch in ("gfx90a", "gfx942", "gfx950"):
        for name in ("kernarg_dump", "scale"):
            text = (FIXTURES / f"{name}.s").read_text().replace("gfx942", arch)
            image = toolchain.link(toolchain.assemble(text, arch))
            packed = bundle(image, arch)
            kinds = {"elf": image, "bundle": packed, "ccob": compress(packed)}
            for kind, data in kinds.items():
                (folder / f"{name}-{arch}-{kind}.object").write_bytes(data)


if __name__ == "__main__":
    main()
