"""Every row of the emulated device's operation tables, encoded and read back by LLVM.

A row is encoded in each form that its encoding has, with fixed operand fields. LLVM's disassembler
must give the row's name, and the decoder's text must equal LLVM's, which checks opcode, operand
types and tuple sizes at once.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from emulator_decoder import (
    DST_SCALAR,
    LITERAL_K,
    NO_VOP3,
    RELATIVE,
    TARGETS,
    Row,
    decode,
    read_rows,
)

from asmevo.codeobject.toolchain import disassemble

SLOT_WORDS = 6
NOP = 0xBF800000
LITERAL = 0x42280000
SDST, SSRC0, SSRC1 = 16, 32, 48
EXEC = 126
VDST, VSRC0, VSRC1, VSRC2 = 64, 128, 160, 192
MAI_FIRST = 0x34
WIDE = {"b64", "f64", "pk_f32"}


# Prints its operands unlike every other buffer access.
NOT_COMPARED = frozenset(("buffer_store_lds_dword",))
# LLVM 22's disassembler does not know it, its assembler does.
UNKNOWN_TO_DISASSEMBLER = frozenset(("image_atomic_cmpswap",))


def is_mai(row: Row) -> bool:
    return row.opcode >= MAI_FIRST or row.opcode in (0x2D, 0x2E)


def vector_source(row: Row, position: int) -> int:
    """9-bit source field: a VGPR, or an SGPR where the operand is a mask or a lane number."""
    if row.src[position] == "none":
        return 0
    if row.src[position] == "mask" or (position == 1 and row.name.endswith("lane_b32")):
        return SSRC1
    if row.name == "v_writelane_b32":
        return SSRC0
    return 0x100 + (VSRC0, VSRC1, VSRC2)[position]


def scalar_words(row: Row) -> list[int]:
    code = {
        "sop2": 0x80000000 | row.opcode << 23 | SDST << 16 | SSRC1 << 8 | SSRC0,
        "sopk": 0xB0000000 | row.opcode << 23 | SDST << 16 | 0x1,
        "sop1": 0xBE800000 | row.opcode << 8,
        "sopc": 0xBF000000 | row.opcode << 16 | SSRC0,
        "sopp": 0xBF800000 | row.opcode << 16,
    }[row.encoding]
    if row.encoding == "sop1":
        code |= (SDST << 16 if row.dst[0] != "none" else 0) | (SSRC0 if row.src[0] != "none" else 0)
    if row.encoding == "sopc":
        code |= (1 if row.name == "s_set_gpr_idx_on" else SSRC1) << 8
    if row.name == "s_setreg_imm32_b32":
        code &= ~(0x7F << 16)
    if row.name.startswith("s_sendmsg"):
        code |= 1
    return [code, LITERAL] if row.flags & LITERAL_K else [code]


def short_vector_words(row: Row) -> Iterator[list[int]]:
    """The 32-bit form, then SDWA and DPP (LLVM says whether they exist)."""
    vdst = SDST if row.flags & DST_SCALAR else VDST
    code = {
        "vop1": 0x7E000000 | (vdst << 17 if row.dst[0] != "none" else 0) | row.opcode << 9,
        "vop2": row.opcode << 25 | VDST << 17 | VSRC1 << 9,
        "vopc": 0x7C000000 | row.opcode << 17 | VSRC1 << 9,
    }[row.encoding]
    source = 0x100 + VSRC0 if row.src[0] != "none" else 0
    if row.flags & LITERAL_K:
        yield [code | source, LITERAL]
        return
    yield [code | source]
    if row.src[0] == "none" or row.name in FORMS_ONLY_E32:
        return
    sdwa = 0x06060600 if row.encoding != "vopc" else 0x06060000
    yield [code | 249, sdwa | VSRC0]
    if row.encoding != "vopc":
        # row_shr:1; 64-bit operations have only row_newbcast.
        control = 0x150 if WIDE & {*row.dst, *row.src} else 0x111
        yield [code | 250, 0xFF000000 | control << 8 | VSRC0]


FORMS_ONLY_E32 = frozenset(
    ("v_readfirstlane_b32", "v_swap_b32", "v_accvgpr_mov_b32", "v_permlane16_swap_b32")
)


def long_vector_words(row: Row) -> list[int]:
    base = {"vop3": 0, "vop1": 0x140, "vop2": 0x100, "vopc": 0}[row.encoding]
    vdst = VDST
    if row.flags & DST_SCALAR or row.dst[0] == "mask":
        # ROCm's LLVM 22.0 knows v_cmpx in this form with EXEC as destination only.
        vdst = EXEC if row.name.startswith("v_cmpx") else SDST
    if row.dst[0] == "none":
        vdst = 0
    code = 0xD0000000 | (row.opcode + base) << 16 | vdst
    if row.dst[1] == "mask":
        code |= (SDST + 4) << 8
    sources = [vector_source(row, i) for i in range(3)]
    return [code, sources[0] | sources[1] << 9 | sources[2] << 18]


def packed_words(row: Row) -> list[int]:
    sources = [vector_source(row, i) for i in range(3)]
    code = 0xD3800000 | row.opcode << 16 | (VDST if row.dst[0] != "none" else 0)
    second = sources[0] | sources[1] << 9 | sources[2] << 18
    if row.name == "v_mfma_ld_scale_b32":
        return [code, second | 3 << 27]
    if not is_mai(row) or row.name.startswith("v_accvgpr"):
        code, second = code | 1 << 14, second | 3 << 27
    return [code, second]


def memory_words(row: Row) -> Iterator[list[int]]:
    if row.encoding == "mimg":
        yield [0xF0000100 | row.opcode << 18, 4 << 16 | 1 << 8]
        return
    if row.encoding == "smem":
        has_data = row.dst[0] != "none" or row.src[2] != "none"
        has_base = row.src[0] != "none"
        code = 0xC0000000 | row.opcode << 18 | (SDST << 6 if has_data else 0)
        yield [code | (SSRC0 // 2 | 1 << 17 if has_base else 0), 0x10 if has_base else 0]
        return
    data = VSRC1 if row.src[1] != "none" else 0
    vdst = VDST if row.dst[0] != "none" else 0
    if row.encoding == "ds":
        address = VSRC0 if row.src[0] != "none" else 0
        data1 = VSRC2 if row.src[2] != "none" else 0
        gds = 1 << 16 if row.name.startswith("ds_gws") else 0
        yield [0xD8000000 | row.opcode << 17 | gds, address | data << 8 | data1 << 16 | vdst << 24]
        return
    if row.encoding in ("mubuf", "mtbuf"):
        if row.src[2] == "none":
            yield [0xE0000000 | row.opcode << 18, 0]
            return
        code = 0xE0001000 | row.opcode << 18
        if row.encoding == "mtbuf":
            code = 0xE8001000 | row.opcode << 15 | 0x01200000
        second = VSRC0 | (data or vdst) << 8 | (SSRC0 // 4) << 16 | 0x80 << 24
        yield [code, second]
        if row.src[1] != "none" and row.dst[0] != "none":
            yield [code | 1 << 14, second]
        return
    segment = {"flat": 0, "scratch": 1, "global": 2}[row.encoding]
    code = 0xDC000000 | row.opcode << 18 | segment << 14
    if row.encoding == "scratch":
        code |= 1 << 13
    saddr = 0x7F << 16 if row.encoding != "flat" else 0
    second = VSRC0 | data << 8 | saddr
    if row.src[1] != "none" and row.dst[0] != "none":
        yield [code, second]
        yield [code | 1 << 16, second | vdst << 24]
    else:
        yield [code, second | vdst << 24]


def forms(row: Row) -> Iterator[list[int]]:
    if row.encoding in ("sop1", "sop2", "sopc", "sopk", "sopp"):
        yield scalar_words(row)
    elif row.encoding in ("vop1", "vop2", "vopc"):
        yield from short_vector_words(row)
        if not row.flags & NO_VOP3:
            yield long_vector_words(row)
    elif row.encoding == "vop3":
        yield long_vector_words(row)
    elif row.encoding == "vop3p":
        yield packed_words(row)
    else:
        yield from memory_words(row)


def plain(text: str) -> str:
    """One blank between words; MTBUF formats are numbers with us and names with LLVM."""
    return re.sub(r"\s+", " ", re.sub(r" format:\S+", "", text)).strip()


def without_suffix(mnemonic: str) -> str:
    return re.sub(r"_(e32|e64|sdwa|dpp)$", "", mnemonic)


def for_target(words: list[int], row: Row, target: str) -> list[int]:
    # gfx90a has no "vaddr counts" bit in scratch accesses: there it means LDS.
    if row.encoding == "scratch" and target == "gfx90a":
        return [words[0] & ~(1 << 13), words[1]]
    return words


@pytest.mark.parametrize("target", TARGETS)
def test_operation_rows_encoded_agree_with_llvm(target: str) -> None:
    slots = [
        (row, for_target(words, row, target))
        for row in read_rows()
        if target in row.targets and row.name not in NOT_COMPARED | UNKNOWN_TO_DISASSEMBLER
        for words in forms(row)
    ]
    padded = [w for _, words in slots for w in words + [NOP] * (SLOT_WORDS - len(words))]
    data = b"".join(word.to_bytes(4, "little") for word in padded)
    by_offset = {one.offset: one for one in disassemble(data, target)}

    problems = []
    for number, (row, words) in enumerate(slots):
        llvm = by_offset.get(number * SLOT_WORDS * 4)
        shown = " ".join(f"{word:08x}" for word in words)
        if llvm is None or llvm.mnemonic == ".long":
            is_optional_form = words[0] & 0x1FF in (249, 250) and row.encoding.startswith("vop")
            if not is_optional_form:
                problems.append(
                    f"{row.name} ({row.encoding} {row.opcode:#x}, {shown}): unknown to LLVM"
                )
            continue
        if without_suffix(llvm.mnemonic) != row.name:
            problems.append(
                f"{row.name} ({row.encoding} {row.opcode:#x}, {shown}): LLVM says {llvm.text}"
            )
            continue
        size, text = decode(target, words)
        expected = llvm.text
        if row.flags & RELATIVE or row.encoding == "mimg":
            text, expected = text.split()[0], llvm.mnemonic
        if size * 4 != len(llvm.data) or plain(text) != plain(expected):
            problems.append(f"{shown}: ours `{text}`, LLVM's `{expected}`")

    assert not problems, f"{len(problems)} of {len(slots)}:\n" + "\n".join(problems[:200])


VECTOR_SOURCES = 0x100 + VSRC0 | 0x100 + VSRC1 << 9 | 0x100 + VSRC2 << 18
WITHOUT_LAST = ~(0x1FF << 18)


def every_scalar_opcode() -> Iterator[list[int]]:
    for opcode in range(128):
        yield [0x80000000 | opcode << 23 | SDST << 16 | SSRC1 << 8 | SSRC0]
        yield [0xBF000000 | opcode << 16 | SSRC1 << 8 | SSRC0]
        yield from ([0xBF800000 | opcode << 16 | simm] for simm in (0, 1))
    for opcode in range(32):
        yield [0xB0000000 | opcode << 23 | SDST << 16 | 1]
        yield [0xB0000000 | opcode << 23 | 1, LITERAL]
    for opcode in range(256):
        for sdst, ssrc in itertools.product((SDST, 0), (SSRC0, 0)):
            yield [0xBE800000 | opcode << 8 | sdst << 16 | ssrc]
        for data in (SDST << 6 | SSRC0 // 2, 0):
            yield [0xC0020000 | opcode << 18 | data, 0x10]


def every_short_vector_opcode() -> Iterator[list[int]]:
    for opcode in range(256):
        for vdst, source in ((VDST, 0x100 + VSRC0), (SDST, 0x100 + VSRC0), (0, 0)):
            yield [0x7E000000 | vdst << 17 | opcode << 9 | source]
        yield [0x7C000000 | opcode << 17 | VSRC1 << 9 | 0x100 + VSRC0]
    for opcode in range(64):
        yield [opcode << 25 | VDST << 17 | VSRC1 << 9 | 0x100 + VSRC0, LITERAL]


def every_long_vector_opcode() -> Iterator[list[int]]:
    for opcode in range(1024):
        for vdst, last in ((VDST, 0x100 + VSRC2), (SDST, SSRC1), (EXEC, 0), (VDST, SSRC1)):
            for first, carry in itertools.product((0x100 + VSRC0, SSRC0), (0, SDST << 8)):
                sources = first | 0x100 + VSRC1 << 9 | last << 18
                yield [0xD0000000 | opcode << 16 | carry | vdst, sources]
            yield [0xD0000000 | opcode << 16 | vdst, 0x100 + VSRC0 | SSRC1 << 9 | last << 18]
    for opcode in range(128):
        for high, vdst in itertools.product((0, 3 << 27), (VDST, 0)):
            code = 0xD3800000 | opcode << 16 | vdst
            yield [code | (1 << 14 if high else 0), VECTOR_SOURCES | high]
            yield [code, VECTOR_SOURCES & WITHOUT_LAST | high]


def every_memory_opcode(target: str) -> Iterator[list[int]]:
    for opcode, gds in itertools.product(range(256), (0, 1 << 16)):
        for second in (VSRC0 | VSRC1 << 8 | VSRC2 << 16 | VDST << 24, 0, VSRC0):
            yield [0xD8000000 | opcode << 17 | gds, second]
    buffer = VSRC0 | VSRC1 << 8 | (SSRC0 // 4) << 16 | 0x80 << 24
    for opcode in range(128):
        for second, offen in itertools.product((buffer, 0), (0x1000, 0)):
            yield [0xE0000000 | opcode << 18 | offen, second]
        yield [0xE9201000 | (opcode & 15) << 15, buffer]
        for segment, bits in itertools.product(range(3), (0, 1 << 13, 1 << 16)):
            saddr = 0x7F << 16 if segment else 0
            for data in (VSRC1 << 8 | VDST << 24, VDST << 24, VSRC1 << 8):
                code = 0xDC000000 | opcode << 18 | segment << 14 | bits
                yield [code, VSRC0 | data | saddr]
        if target == "gfx90a":
            yield [0xF0000100 | opcode << 18, 4 << 16 | 1 << 8]


def every_opcode(target: str) -> Iterator[list[int]]:
    """Words with every opcode number of every encoding, their operands plain registers."""
    yield from every_scalar_opcode()
    yield from every_short_vector_opcode()
    yield from every_long_vector_opcode()
    yield from every_memory_opcode(target)


# LLVM writes the pair of v_mfma_ld_scale_b32 and the operation that it scales as one.
PAIRS = re.compile(r"v_mfma_scale_f32_\d+x\d+x\d+_f8f6f4")


@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_that_llvm_decodes_has_a_row(target: str) -> None:
    names = {row.name for row in read_rows() if target in row.targets}
    slots = list(every_opcode(target))
    padded = [w for words in slots for w in words + [NOP] * (SLOT_WORDS - len(words))]
    data = b"".join(word.to_bytes(4, "little") for word in padded)
    decoded = {
        without_suffix(one.mnemonic)
        for one in disassemble(data, target)
        if one.offset % (4 * SLOT_WORDS) == 0 and one.mnemonic != ".long"
    }

    assert len(decoded) > 1000
    unknown = {name for name in decoded - names if not PAIRS.fullmatch(name)}
    assert not unknown, sorted(unknown)


def test_rows_that_are_not_exact_say_why() -> None:
    for row in read_rows():
        assert bool(row.note) == (row.exactness != "exact"), row.name


def test_operation_rows_have_one_row_for_an_opcode() -> None:
    seen: dict[tuple[str, str, int], str] = {}
    for row in read_rows():
        for target in row.targets:
            key = (target, row.encoding, row.opcode)
            assert key not in seen, f"{row.name} and {seen[key]} share {key}"
            seen[key] = row.name
