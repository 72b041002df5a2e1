"""What /proc says about a process that is to be captured, and reading its memory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from asmevo.errors import TargetError

__all__ = [
    "ProcessMemory",
    "TargetProcess",
    "explain_denied",
    "find_target",
    "has_frida_agent",
    "is_running",
]

_LIBC = re.compile(r"(libc\.so|libc-2\.|ld-musl)")
_MAX_READ_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProcess:
    """A process that passed the checks: alive, dynamic, not traced, with HIP."""

    pid: int
    hip_paths: tuple[str, ...]  # of the copies of libamdhip64.so, as the target sees them
    command: tuple[str, ...]


def find_target(pid: int) -> TargetProcess:
    """Check that a process can be captured, before anything touches it.

    Raises:
        TargetError: It does not exist, may not be read, is not a HIP process, is static (attaching
            would kill it), is stopped or is being debugged.
    """
    if pid == os.getpid():
        raise TargetError("asmevo cannot capture itself")
    status = _read_status(pid)
    state = status.get("State", "")
    if state.startswith(("Z", "X")):
        raise TargetError(f"process {pid} has ended already")
    mapped = _read_mapped_files(pid)
    hip_paths = tuple(path for path in mapped if Path(path).name.startswith("libamdhip64.so"))
    if not hip_paths:
        raise TargetError(
            f"process {pid} ({status.get('Name', '?')}) has no libamdhip64.so loaded: "
            "not a HIP process",
            hint="give the process that launches kernels; a server's workers are its children",
        )
    if not any(_LIBC.match(Path(path).name) for path in mapped):
        raise TargetError(f"process {pid} is statically linked: attaching would end it")
    if state.startswith("T"):  # attaching would make it go on
        raise TargetError(f"process {pid} is stopped", hint=f"continue it first: kill -CONT {pid}")
    if (tracer := status.get("TracerPid", "0")) != "0":
        raise TargetError(f"process {pid} is being traced by process {tracer}, a debugger perhaps")
    return TargetProcess(pid=pid, hip_paths=hip_paths, command=_read_command(pid))


def explain_denied(pid: int) -> TargetError:
    """The error for a target that may not be attached to, with what would allow it."""
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    fix = "run as the target's user or with CAP_SYS_PTRACE; in a container: --cap-add=SYS_PTRACE"
    if scope not in {"0", ""}:
        fix = (
            f"kernel.yama.ptrace_scope is {scope}: sudo sysctl kernel.yama.ptrace_scope=0, or let "
            "the target call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)"
        )
    return TargetError(f"permission denied to attach to process {pid}", hint=fix)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] not in (["Z"], ["X"])


def has_frida_agent(pid: int) -> bool:
    """Whether the agent is still mapped; False for a process that is gone."""
    try:
        return "frida-agent" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False


def _read_status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except (OSError, ValueError) as error:
        raise TargetError(f"there is no process {pid}") from error
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _read_mapped_files(pid: int) -> tuple[str, ...]:
    try:
        text = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except PermissionError as error:
        raise explain_denied(pid) from error
    except OSError as error:
        raise TargetError(f"process {pid} has ended already") from error
    # address perms offset dev inode path; only mapped files have a path that starts with a slash
    fields = (line.split(maxsplit=5) for line in text.splitlines())
    found = (field[5] for field in fields if len(field) == 6 and field[5].startswith("/"))
    return tuple(dict.fromkeys(found))


def _read_command(pid: int) -> tuple[str, ...]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()[: 1 << 16]
    except OSError:
        return ()
    return tuple(item.decode(errors="replace") for item in raw.rstrip(b"\0").split(b"\0"))[:256]


class ProcessMemory:
    """Reads the memory of another process, through /proc/PID/mem."""

    def __init__(self, pid: int) -> None:
        """Open the memory file."""
        self.pid = pid
        try:
            self._file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise explain_denied(pid) from error
        except OSError as error:
            raise TargetError(f"process {pid} has ended") from error

    def close(self) -> None:
        """Close the memory file."""
        os.close(self._file)

    def read(self, address: int, size: int) -> bytes:
        """Read exactly `size` bytes.

        Raises:
            TargetError: Some of them are not mapped.
        """
        if not (0 < address < 1 << 63 and 0 <= size <= _MAX_READ_BYTES):
            raise TargetError(f"process {self.pid}: cannot read {size} bytes at {address:#x}")
        pieces: list[bytes] = []
        done = 0
        while done < size:
            try:
                piece = os.pread(self._file, size - done, address + done)
            except OSError:
                piece = b""
            if not piece:
                raise TargetError(f"process {self.pid}: cannot read {size} bytes at {address:#x}")
            pieces.append(piece)
            done += len(piece)
        return b"".join(pieces)

    def read_some(self, address: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer, or none, where they are not mapped."""
        if not 0 < address < 1 << 63:
            return b""
        try:
            return os.pread(self._file, size, address)
        except OSError:
            return b""

    def read_string(self, address: int, limit: int) -> str:
        """Read a string that ends with NUL within `limit` bytes."""
        data = self.read_some(address, limit)
        end = data.find(b"\0")
        if end < 0:
            raise TargetError(f"process {self.pid}: no string at {address:#x}")
        return data[:end].decode(errors="replace")
