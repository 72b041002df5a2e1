"""Decodes and encodes instructions with LLVM's C interface, in a process that may die.

LLVM's decoder crashes on some words, and its assembler may end the process it runs in
(report_fatal_error); so LLVM is loaded here and nowhere else. Started as a script, without this
package: `llvm_worker.py LIBRARY --version`, or `llvm_worker.py LIBRARY` to serve requests from
standard input until it ends.

Request: kind (`v` version, `d` decode, `c` decode with care, `e` encode), size of the processor's
name and of the contents (32 bits each), both. Answer: frames of kind and size. `k` ends one that
went well, `e` one that did not. Decoding gives a line for each instruction, its size and its text,
or `4` where LLVM cannot decode; with care, each line is a frame of its own (`p`), so that what came
before a crash is known. Encoding takes assembly text that fills one section, `.asmevo.code`, and
gives its size (32 bits), its contents and their decoding, or `LINE MESSAGE` for every error.
"""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any

_TRIPLE = b"amdgcn-amd-amdhsa"
_REQUEST = struct.Struct("<cII")
_FRAME = struct.Struct("<cI")
_SIZE = struct.Struct("<I")
_SECTION = b".asmevo.code"
# LLVMDisassembler_Option_SetInstrComments: LLVM's doubts about an instruction are comments.
_COMMENTS = 8
# LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelDefault, LLVMObjectFile.
_LEVEL, _PIC, _MODEL, _OBJECT = 0, 2, 0, 1
_ERROR_LINE = re.compile(r"<inline asm>:(\d+):\d+: (?:error: )?(.*)")

_pointer = ctypes.c_void_p
_Handler = ctypes.CFUNCTYPE(None, _pointer, _pointer)


class Llvm:
    """The functions of LLVM-C that are used, and what is worth keeping between requests."""

    def __init__(self, path: str) -> None:
        """Load the library at `path`."""
        self._library = ctypes.CDLL(path)
        self._contexts: dict[bytes, int | None] = {}
        self._machines: dict[bytes, int] = {}
        self._errors: list[bytes] = []
        self._handler = _Handler(self._note_error)

    def declare(self, name: str, result: Any, *arguments: Any) -> Any:
        """One function with its types."""
        function = getattr(self._library, name)
        function.restype = result
        function.argtypes = arguments
        return function

    def version(self) -> str:
        """LLVM's version, `22.0.0`."""
        parts = [ctypes.c_uint() for _ in range(3)]
        self._library.LLVMGetVersion(*(ctypes.byref(part) for part in parts))
        return ".".join(str(part.value) for part in parts)

    def start(self) -> None:
        """Initialize the target."""
        for part in ("TargetInfo", "Target", "TargetMC", "Disassembler", "AsmParser", "AsmPrinter"):
            # A library that only decodes lacks the last ones.
            initialize = getattr(self._library, f"LLVMInitializeAMDGPU{part}", None)
            if initialize is not None:
                initialize()
        text, size = ctypes.c_char_p, ctypes.c_size_t
        self._new_decoder = self.declare(
            "LLVMCreateDisasmCPU", _pointer, text, text, _pointer, ctypes.c_int, _pointer, _pointer
        )
        self._decode_one = self.declare(
            "LLVMDisasmInstruction", size, _pointer, _pointer, ctypes.c_uint64, ctypes.c_uint64,
            _pointer, size,
        )  # fmt: skip

    def decode(self, cpu: bytes, data: bytes) -> Iterator[bytes]:
        """Lines for all instructions of `data`, one by one."""
        if cpu not in self._contexts:
            self._contexts[cpu] = self._new_decoder(_TRIPLE, cpu, None, 0, None, None)
            self.declare("LLVMSetDisasmOptions", ctypes.c_int, _pointer, ctypes.c_uint64)(
                self._contexts[cpu], _COMMENTS
            )
        context = self._contexts[cpu]
        if not context:
            raise ValueError(f"LLVM does not know {cpu.decode()}")
        code = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        text = ctypes.create_string_buffer(512)
        decode_one, place = self._decode_one, ctypes.addressof(text)
        at, left, offset = ctypes.addressof(code), len(data), 0
        while left > 0:
            size = decode_one(context, at, left, offset, place, 512)
            yield b"%d%s" % (size, text.value) if size else b"4"
            size = size or 4
            at, left, offset = at + size, left - size, offset + size

    def encode(self, cpu: bytes, source: bytes) -> tuple[bytes, bytes]:
        """Contents of the section that assembly text fills, or error lines."""
        machine = self._machine(cpu)
        context = self.declare("LLVMContextCreate", _pointer)()
        self._errors.clear()
        try:
            self.declare("LLVMContextSetDiagnosticHandler", None, _pointer, _Handler, _pointer)(
                context, self._handler, None
            )
            return self._emit(context, machine, source), b"\n".join(self._errors)
        finally:
            self.declare("LLVMContextDispose", None, _pointer)(context)

    def _emit(self, context: int, machine: int, source: bytes) -> bytes:
        new_module = self.declare(
            "LLVMModuleCreateWithNameInContext", _pointer, ctypes.c_char_p, _pointer
        )
        module = new_module(b"asmevo", context)
        self.declare("LLVMSetTarget", None, _pointer, ctypes.c_char_p)(module, _TRIPLE)
        self.declare(
            "LLVMSetModuleInlineAsm2", None, _pointer, ctypes.c_char_p, ctypes.c_size_t
        )(module, source, len(source))  # fmt: skip
        message, buffer = _pointer(), _pointer()
        has_failed = self.declare(
            "LLVMTargetMachineEmitToMemoryBuffer", ctypes.c_int, _pointer, _pointer, ctypes.c_int,
            _pointer, _pointer,
        )(machine, module, _OBJECT, ctypes.byref(message), ctypes.byref(buffer))  # fmt: skip
        self.declare("LLVMDisposeModule", None, _pointer)(module)
        if has_failed:
            self._errors.append(b"1 " + ctypes.string_at(message))
            return b""
        return b"" if self._errors else self._read_section(context, buffer)

    def _read_section(self, context: int, buffer: Any) -> bytes:
        """Contents of our section in the object that `buffer` holds."""
        message = _pointer()
        binary = self.declare("LLVMCreateBinary", _pointer, _pointer, _pointer, _pointer)(
            buffer, context, ctypes.byref(message)
        )
        if not binary:
            self._errors.append(b"1 " + ctypes.string_at(message))
            return b""
        section = self.declare("LLVMObjectFileCopySectionIterator", _pointer, _pointer)(binary)
        is_end = self.declare(
            "LLVMObjectFileIsSectionIteratorAtEnd", ctypes.c_int, _pointer, _pointer
        )
        name_of = self.declare("LLVMGetSectionName", ctypes.c_char_p, _pointer)
        contents = b""
        while not is_end(binary, section):
            name = name_of(section)
            if name == b".rela" + _SECTION:
                self._errors.append(b"1 it names a symbol")
            elif name == _SECTION:
                size = self.declare("LLVMGetSectionSize", ctypes.c_uint64, _pointer)(section)
                place = self.declare("LLVMGetSectionContents", _pointer, _pointer)(section)
                contents = ctypes.string_at(place, size)
            self.declare("LLVMMoveToNextSection", None, _pointer)(section)
        self.declare("LLVMDisposeSectionIterator", None, _pointer)(section)
        self.declare("LLVMDisposeBinary", None, _pointer)(binary)
        self.declare("LLVMDisposeMemoryBuffer", None, _pointer)(buffer)
        return contents

    def _machine(self, cpu: bytes) -> int:
        if cpu not in self._machines:
            target, message = _pointer(), _pointer()
            find = self.declare(
                "LLVMGetTargetFromTriple", ctypes.c_int, ctypes.c_char_p, _pointer, _pointer
            )
            find(_TRIPLE, ctypes.byref(target), ctypes.byref(message))
            text, number = ctypes.c_char_p, ctypes.c_int
            new_machine = self.declare(
                "LLVMCreateTargetMachine", _pointer, _pointer, text, text, text, number, number,
                number,
            )  # fmt: skip
            self._machines[cpu] = new_machine(target, _TRIPLE, cpu, b"", _LEVEL, _PIC, _MODEL)
        return self._machines[cpu]

    def _note_error(self, information: int, _: object) -> None:
        severity = self.declare("LLVMGetDiagInfoSeverity", ctypes.c_int, _pointer)(information)
        if severity:
            return
        describe = self.declare("LLVMGetDiagInfoDescription", _pointer, _pointer)
        message = ctypes.string_at(describe(information)).decode("utf-8", "replace")
        match = _ERROR_LINE.match(message)
        number, shown = match.groups() if match else ("1", message.partition("\n")[0])
        self._errors.append(f"{number} {shown}".encode())


def serve(llvm: Llvm) -> None:
    """Answer requests until there are no more."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer

    def answer(kind: bytes, payload: bytes = b"") -> None:
        sink.write(_FRAME.pack(kind, len(payload)) + payload)
        sink.flush()

    llvm.start()
    while len(head := source.read(_REQUEST.size)) == _REQUEST.size:
        kind, name_size, size = _REQUEST.unpack(head)
        cpu, data = source.read(name_size), source.read(size)
        try:
            if kind == b"v":
                answer(b"k", llvm.version().encode())
            elif kind == b"e":
                code, errors = llvm.encode(cpu, data)
                lines = b"" if errors else b"\n".join(llvm.decode(cpu, code))
                answer(b"e" if errors else b"k", errors or _SIZE.pack(len(code)) + code + lines)
            elif kind == b"c":
                for line in llvm.decode(cpu, data):
                    answer(b"p", line + b"\n")
                answer(b"k")
            else:
                answer(b"k", b"\n".join(llvm.decode(cpu, data)))
        except (ValueError, AttributeError) as error:
            # AttributeError: a library without this function.
            answer(b"e", f"0 {error}".encode())


def main() -> None:
    """Say the version, or serve."""
    llvm = Llvm(sys.argv[1])
    if sys.argv[2:] == ["--version"]:
        print(llvm.version())
    else:
        serve(llvm)


main()
