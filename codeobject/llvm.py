"""Finds an LLVM with AMDGPU: ROCm's, then versioned names, then PATH, then the packages from
PyPI."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from asmevo.codeobject.llvm_service import worker_command
from asmevo.codeobject.process import run_tool
from asmevo.errors import AssemblerError, MissingToolError, UsageError

__all__ = ["CHOICE_VARIABLE", "Role", "Tool", "find_tool", "find_tools", "install_hint"]

CHOICE_VARIABLE: Final = "ASMEVO_LLVM"
# Newest first; 19 is the first that serves gfx942.
_VERSIONS: Final = range(24, 18, -1)


class Role(StrEnum):
    """What a tool is for."""

    ASSEMBLER = "assembler"
    LINKER = "linker"
    DISASSEMBLER = "disassembler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One program and how to start it."""

    role: Role
    command: tuple[str, ...]
    """What precedes the arguments of the tool's `kind`."""
    kind: str
    """Command line that it understands: `llvm-mc`, `clang`, `ld.lld`, `llvm-objdump`; `library` for
    one that has none."""
    path: str
    version: str
    source: str
    """`rocm`, `system`, `pypi` or the folder named by ASMEVO_LLVM."""
    library: str = ""
    """LLVM's shared library for `llvm_service`, where there is one beside the tool."""

    @property
    def major(self) -> int:
        """LLVM's major version."""
        return int(self.version.split(".")[0])


_KINDS: Final[dict[Role, tuple[str, ...]]] = {
    Role.ASSEMBLER: ("llvm-mc", "clang"),
    Role.LINKER: ("ld.lld",),
    Role.DISASSEMBLER: ("llvm-objdump",),
}


def install_hint(minimum: int = 0) -> str:
    """The commands that install LLVM `minimum` or later."""
    version = max(minimum, _VERSIONS[-1])
    return (
        "install it with `pip install 'asmevo[toolchain]'`, "
        f"or as root `apt-get install llvm-{version} lld-{version}` or later"
    )


def find_tools(minimum: int = 0) -> dict[Role, Tool]:
    """All roles that can be filled by LLVM `minimum` or later, from one source where one has them
    all."""
    path = os.environ.get("PATH", "")
    return dict(_find_tools(os.environ.get(CHOICE_VARIABLE, ""), path, minimum))


def find_tool(role: Role, minimum: int = 0) -> Tool:
    """The tool for `role`, or MissingToolError with what to install."""
    tool = find_tools(minimum).get(role)
    if tool is None:
        choice = os.environ.get(CHOICE_VARIABLE, "")
        where = f" with {CHOICE_VARIABLE}={choice}" if choice else ""
        older = find_tools().get(role)
        least = f" {minimum} or later" if minimum else ""
        found = f": {older.path} is LLVM {older.version}" if older else ""
        raise MissingToolError(
            f"no {role} of LLVM{least} with AMDGPU found{where}{found}", hint=install_hint(minimum)
        )
    return tool


@functools.lru_cache(maxsize=16)
def _find_tools(choice: str, path: str, minimum: int) -> tuple[tuple[Role, Tool], ...]:
    merged: dict[Role, Tool] = {}
    for source in _sources(choice, path):
        found = {role: tool for role, tool in source().items() if tool.major >= minimum}
        if len(found) == len(Role):
            return tuple(found.items())
        merged = found | merged
    return tuple(merged.items())


def _sources(choice: str, path: str) -> Iterator[Callable[[], dict[Role, Tool]]]:
    if choice not in ("", "pypi", "system") and not os.path.isdir(choice):
        raise UsageError(
            f"{CHOICE_VARIABLE}={choice[:200]} is not a folder",
            hint=f"set {CHOICE_VARIABLE} to system, pypi or the folder that holds llvm-mc",
        )
    if os.path.isdir(choice):
        yield lambda: _search(lambda name: _in_folder(Path(choice), name), choice)
        return
    if choice in ("", "system"):
        for folder in _rocm_folders():
            yield functools.partial(_search, functools.partial(_in_folder, folder), "rocm")
        for version in _VERSIONS:
            yield functools.partial(_search, functools.partial(_versioned, version, path), "system")
        yield lambda: _search(lambda name: shutil.which(name, path=path), "system")
    if choice in ("", "pypi"):
        yield _from_pypi


def _rocm_folders() -> Iterator[Path]:
    roots = [os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME"), "/opt/rocm"]
    for root in dict.fromkeys(filter(None, roots)):
        for inner in ("llvm/bin", "lib/llvm/bin"):
            folder = Path(root) / inner
            if folder.is_dir():
                yield folder


def _in_folder(folder: Path, name: str) -> str | None:
    return shutil.which(name, path=str(folder))


def _versioned(version: int, path: str, name: str) -> str | None:
    return shutil.which(f"{name}-{version}", path=path) or shutil.which(
        name, path=f"/usr/lib/llvm-{version}/bin"
    )


def _search(locate: Callable[[str], str | None], source: str) -> dict[Role, Tool]:
    found: dict[Role, Tool] = {}
    for role, kinds in _KINDS.items():
        for kind in kinds:
            path = locate(kind)
            version = _probe(path, kind) if path else None
            if path and version:
                found[role] = Tool(
                    role=role,
                    command=(path,),
                    kind=kind,
                    path=path,
                    version=version,
                    source=source,
                    library=_library_beside(path, version) if kind == "llvm-objdump" else "",
                )
                break
    return found


def _library_beside(path: str, version: str) -> str:
    """LLVM's shared library of the same version, in the `lib` next to the tool's `bin`."""
    major, minor, _ = version.split(".")
    folder = Path(path).resolve().parent.parent / "lib"
    for name in (f"libLLVM.so.{major}.{minor}", f"libLLVM-{major}.so", f"libLLVM.so.{major}"):
        if (folder / name).is_file():
            return str(folder / name)
    return ""


def _probe(path: str, kind: str) -> str | None:
    """Version of a working tool that knows AMDGPU, else None."""
    try:
        done = run_tool((path, "--version"), timeout_s=20)
        # clang names its targets only when asked; lld needs none.
        listing = run_tool((path, "-print-targets"), timeout_s=20) if kind == "clang" else done
    except (AssemblerError, MissingToolError):
        return None
    knows_amdgpu = kind == "ld.lld" or b"amdgcn" in listing.output
    match = re.search(rb"(?:version|LLD) (\d+\.\d+\.\d+)", done.output)
    return match[1].decode() if done.code == 0 and match and knows_amdgpu else None


def _from_pypi() -> dict[Role, Tool]:
    return _from_ziglang() | _from_rocm_llvm()


def _from_ziglang() -> dict[Role, Tool]:
    zig = _package_file("ziglang", "zig")
    if zig is None or not os.access(zig, os.X_OK):
        return {}
    found = {}
    for role, kind in ((Role.ASSEMBLER, "clang"), (Role.LINKER, "ld.lld")):
        command = (str(zig), kind)
        try:
            done = run_tool((*command, "--version"), timeout_s=20)
        except (AssemblerError, MissingToolError):
            continue
        match = re.search(rb"(?:version|LLD) (\d+\.\d+\.\d+)", done.output)
        if match:
            found[role] = Tool(
                role=role,
                command=command,
                kind=kind,
                path=str(zig),
                version=match[1].decode(),
                source="pypi",
            )
    return found


def _from_rocm_llvm() -> dict[Role, Tool]:
    library = _package_file("rocm", "llvm/librocmllvm.so")
    if library is None:
        return {}
    # A process of ours loads the library, so that a decoder crash ends it and not us.
    command = worker_command(str(library))
    try:
        done = run_tool((*command, "--version"), timeout_s=20)
    except (AssemblerError, MissingToolError):
        return {}
    if done.code != 0:
        return {}
    tool = Tool(
        role=Role.DISASSEMBLER,
        command=command,
        kind="library",
        path=str(library),
        library=str(library),
        version=done.output.decode().strip(),
        source="pypi",
    )
    return {Role.DISASSEMBLER: tool}


def _package_file(package: str, relative: str) -> Path | None:
    # `rocm` is shared by several distributions and may lie in more than one folder.
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(location) / relative
        if file.is_file():
            return file
    return None
