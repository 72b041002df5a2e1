"""Decodes instructions with LLVM-C in a process that may die: LLVM's decoder crashes on some words.

Started as a script, without this package: `decoder_child.py LIBRARY --version` or `decoder_child.py
LIBRARY CPU`, the code on standard input; one line per instruction, `OFFSET SIZE TEXT`, or `OFFSET
4` where LLVM cannot decode.
"""

import ctypes
import sys

_TRIPLE = b"amdgcn-amd-amdhsa"


def load(path: str) -> ctypes.CDLL:
    """Open LLVM and declare what is used of it."""
    library = ctypes.CDLL(path)
    library.LLVMCreateDisasmCPU.restype = ctypes.c_void_p
    library.LLVMCreateDisasmCPU.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    library.LLVMDisasmInstruction.restype = ctypes.c_size_t
    library.LLVMDisasmInstruction.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    return library


def version(library: ctypes.CDLL) -> str:
    """LLVM's version, `22.0.0`."""
    parts = [ctypes.c_uint() for _ in range(3)]
    library.LLVMGetVersion(*(ctypes.byref(part) for part in parts))
    return ".".join(str(part.value) for part in parts)


def decode(library: ctypes.CDLL, cpu: str, data: bytes) -> list[str]:
    """All instructions of `data` as lines."""
    for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
        getattr(library, f"LLVMInitializeAMDGPU{part}")()
    context = library.LLVMCreateDisasmCPU(_TRIPLE, cpu.encode(), None, 0, None, None)
    if not context:
        raise SystemExit(f"LLVM does not know {cpu}")
    code = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
    base = ctypes.addressof(code)
    text = ctypes.create_string_buffer(512)
    lines = []
    offset = 0
    while offset < len(data):
        size = library.LLVMDisasmInstruction(
            context, base + offset, len(data) - offset, offset, text, len(text)
        )
        shown = text.value.decode("ascii", "replace") if size else ""
        size = size or 4
        lines.append(f"{offset} {size} {' '.join(shown.split())}")
        offset += size
    return lines


def main() -> None:
    """Serve one request."""
    library = load(sys.argv[1])
    if sys.argv[2] == "--version":
        print(version(library))
        return
    print("\n".join(decode(library, sys.argv[2], sys.stdin.buffer.read())))


main()
