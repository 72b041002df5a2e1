"""Fetch the third-party inputs of demo and tests, by pinned hash, into a shared cache.

    python scripts/fetch_inputs.py [--kernels] [--cache DIR]

The cache is `$ASMEVO_CACHE/inputs`, by default `~/.cache/asmevo/inputs`. A wheel that is there
with the right hash is not fetched again; pip takes up a broken transfer where it stopped. Only the
Python files and libraries that are listed are unpacked; nothing of a wheel is installed.
`--kernels` adds the wheels that only scripts/verify_kernels and some tests need.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INPUTS", "KERNEL_INPUTS", "Input", "fetch", "get_cache"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One wheel on PyPI: name, version, SHA-256 of the file, what of it to unpack.

    Attributes:
        members: Prefixes of the names of Python files.
        libraries: Names of native libraries and code objects.
    """

    name: str
    version: str
    sha256: str
    members: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    @property
    def folder_name(self) -> str:
        """Name of the unpacked folder in the cache."""
        return f"{self.name}-{self.version}"

    @property
    def source(self) -> str:
        """What an unpacked folder says it was made from."""
        parts = " ".join((*self.members, *self.libraries))
        return f"{self.folder_name} sha256:{self.sha256} {parts}\n"


INPUTS = (
    Input(
        name="vllm",
        version="0.33.0",
        sha256="4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
        members=("vllm/",),
    ),
)
KERNEL_INPUTS: tuple[Input, ...] = (
    Input(
        name="amd_aiter",
        version="0.1.7.post2.dev18",
        sha256="fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31",
        members=("aiter/ops/triton/", "aiter/utility/"),
        libraries=(
            "aiter_meta/hsa/gfx942/bf16gemm/bf16gemm_outf32_tn_32x64_pf3.co",
            "aiter_meta/hsa/gfx942/layer_norm.co",
            "aiter_meta/hsa/gfx942/pa/pa_bf16_noquant_gqa8_1tg_4w.co",
            "aiter_meta/hsa/gfx942/topksoftmax/topksoftmax_4x128x8.co",
            "aiter_meta/hsa/gfx950/bf16gemm/bf16gemm_outf32_tn_32x64_pf3.co",
            "aiter_meta/hsa/gfx950/pa/pa_bf16_noquant_gqa8_1tg_4w.co",
        ),
    ),
    Input(
        name="bitsandbytes",
        version="0.50.2",
        sha256="55348a9a4a21bfd99cf8c7b32fe67b4030ae5c2a05738e03c1747f65fa6ec283",
        members=(),
        libraries=("bitsandbytes/libbitsandbytes_rocm72.so",),
    ),
    Input(
        name="einops",
        version="0.8.2",
        sha256="54058201ac7087911181bfec4af6091bb59380360f069276601256a76af08193",
        members=("einops/",),
    ),
    Input(
        name="sglang",
        version="0.5.23",
        sha256="00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
        members=(
            "sglang/kernels/",
            "sglang/srt/",
            "sglang/test/",
            "sglang/utils",
            "sglang/version",
        ),
    ),
)


def get_cache() -> Path:
    """The folder that all tests share."""
    root = os.environ.get("ASMEVO_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "asmevo") / "inputs"


def hash_file(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(item: Input, wheels: Path) -> Path:
    """The wheel in the cache, fetched through pip when it is not there; pip checks the hash."""
    for wheel in wheels.glob(f"{item.name}-{item.version}-*.whl"):
        if hash_file(wheel) == item.sha256:
            return wheel
    with tempfile.TemporaryDirectory(dir=wheels) as folder:
        requirement = Path(folder) / "requirement.txt"
        requirement.write_text(f"{item.name}=={item.version} --hash=sha256:{item.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--resume-retries", "20"]
        # The pinned file, whatever this Python and this machine are: only its text is used.
        command += ["--python-version", "3.11"]
        for platform in ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64"):
            command += ["--platform", platform]
        command += [
            "--only-binary",
            ":all:",
            "--require-hashes",
            "-d",
            folder,
            "-r",
            str(requirement),
        ]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(
                f"fetch_inputs: {item.folder_name} could not be fetched; run this again"
            )
        wheel = next(Path(folder).glob("*.whl"))
        return Path(shutil.move(wheel, wheels / wheel.name))


def unpack(item: Input, wheel: Path, target: Path) -> None:
    """Unpack the wanted members into `target`, which appears whole or not at all."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(item.members)]
        wanted = [name for name in names if name.endswith(".py")]
        archive.extractall(partial, members=[*wanted, *item.libraries])
    (partial / "SOURCE").write_text(item.source)
    if target.exists():
        outdated = target.with_name(f"{target.name}.{os.getpid()}.outdated")
        target.rename(outdated)
        shutil.rmtree(outdated)
    partial.rename(target)


def is_unpacked(item: Input, target: Path) -> bool:
    """True when `target` was made from this wheel and holds what is listed today."""
    source = target / "SOURCE"
    return source.is_file() and source.read_text() == item.source


def fetch(item: Input, cache: Path) -> Path:
    """The unpacked folder of an input, fetched when needed."""
    target = cache / item.folder_name
    if is_unpacked(item, target):
        return target
    wheels = cache / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    print(f"fetch_inputs: {item.folder_name}", file=sys.stderr)
    unpack(item, download(item, wheels), target)
    return target


def main() -> None:
    """Fetch all inputs and print where they are."""
    parser = argparse.ArgumentParser(description="Fetch the third-party inputs by pinned hash")
    parser.add_argument("--cache", type=Path, default=get_cache(), help="cache folder")
    parser.add_argument("--kernels", action="store_true", help="also what verify_kernels needs")
    arguments = parser.parse_args()
    for item in INPUTS + KERNEL_INPUTS * arguments.kernels:
        print(fetch(item, arguments.cache))


if __name__ == "__main__":
    main()
