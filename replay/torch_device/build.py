"""Builds the C++ backend against the installed torch, once per torch and source."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BuildError", "Target", "build_backend", "cache_folder"]

_SOURCES = Path(__file__).parent / "backend"
_LIBRARY_NAME = "libasmevo_torch.so"
_OPTIONS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_TIME_LIMIT_S = 3600  # a minute on an idle machine
_COMPILERS = ("g++", "c++", "clang++")
_WRAPPER = "asmevo-torch-c++"  # of scripts/setup, on machines without any of these


class BuildError(Exception):
    """The backend could not be built; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The torch to build for.

    Attributes:
        folder: Where it is installed. It does not tell builds apart: environments share the result.
        version: As torch says it.
        commit: Of torch's sources.
        uses_cxx11_abi: How its C++ names are made.
    """

    folder: Path
    version: str
    commit: str
    uses_cxx11_abi: bool


def cache_folder() -> Path:
    """Where built backends are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "asmevo" / "torch_device"


def _digest(target: Target) -> str:
    """What the result depends on: a change of any of it needs a new build."""
    key = (target.version, target.commit, target.uses_cxx11_abi, _OPTIONS)
    result = hashlib.sha256(repr(key).encode())
    for path in sorted(_SOURCES.iterdir()):
        result.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return result.hexdigest()[:16]


def _find_compilers() -> list[list[str]]:
    """Commands to try, in this order."""
    named = os.environ.get("CXX", "").split()
    commands = [named] if named and shutil.which(named[0]) else []
    commands += [[name] for name in _COMPILERS if shutil.which(name)]
    wrapper = Path(sys.executable).with_name(_WRAPPER)
    return commands + ([[str(wrapper)]] if wrapper.is_file() else [])


def _compile(compiler: Sequence[str], target: Target, output: Path) -> str:
    """Compile; returns what the compiler said if it failed, or nothing."""
    command = [
        *compiler,
        *_OPTIONS,
        "-DAT_PER_OPERATOR_HEADERS",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(target.uses_cxx11_abi)}",
        f"-I{target.folder / 'include'}",
        str(_SOURCES / "all.cpp"),
        f"-L{target.folder / 'lib'}",
        "-ltorch_cpu",
        "-lc10",
        "-ldl",
        "-o",
        str(output),
    ]
    # The compiler is the host's: it gets neither the device's library nor a Python set-up.
    environment = {
        k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")
    }
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:  # another compiler would not be faster
        raise BuildError(
            f"{compiler[0]} took longer than {_TIME_LIMIT_S} seconds to compile the backend"
        ) from error
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stdout or f"exit code {done.returncode}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock, so that processes started together build once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(target: Target, library: Path) -> None:
    compilers = _find_compilers()
    if not compilers:
        raise BuildError("no C++ compiler was found (install g++ or clang++, or name one by CXX)")
    print(
        f"asmevo: building the emulated device for torch {target.version} (once, about a minute)",
        file=sys.stderr,
        flush=True,
    )
    partial = library.with_name(f"{library.name}.{os.getpid()}.partial")
    said: list[str] = []
    try:
        for compiler in compilers:
            said.append(_compile(compiler, target, partial))
            if not said[-1]:
                partial.rename(library)
                return
    finally:
        partial.unlink(missing_ok=True)
    log = library.with_name("build.log")
    log.write_text("\n".join(said))
    raise BuildError(f"the backend does not compile for torch {target.version} (see {log})")


def build_backend(target: Target) -> Path:
    """The backend's library for a torch, built unless it is in the cache.

    Raises:
        BuildError: There is no compiler, it failed, or the cache cannot be written.
    """
    folder = cache_folder() / f"{target.version}-{_digest(target)}"
    library = folder / _LIBRARY_NAME
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not library.is_file():
                _build(target, library)
    except OSError as error:
        raise BuildError(f"the backend cannot be built in {folder}: {error.strerror}") from error
    return library
