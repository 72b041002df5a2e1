"""Pairs of instructions for the hazard rules, as machine IR for LLVM's hazard recognizer.

The static rules and those of the emulated device are both held against what llc makes of them.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator

__all__ = ["LLC", "recognize"]

LLC = shutil.which("llc-22")
EXEC, MODE = "implicit $exec", "implicit $mode, implicit $exec"
DPP = "273, 15, 15, 1"
MFMA = "{{d:v{0}}} = V_MFMA_{1}_vgprcd_e64 {{x:v{2}}}, {{y:v{2}}}, {{z:v{0}}}, 0, 0, 0, " + MODE
# `{name:v2}` is an operand of two VGPRs; `d` and `c` are results, `w` is store data.
TEMPLATES = (
    f"{{d:v1}} = V_ADD_F32_e32 {{x:v1}}, {{y:v1}}, {MODE}",
    f"{{d:v1}} = V_MOV_B32_e32 {{x:s1}}, {EXEC}",
    f"{{d:v1}} = V_EXP_F32_e32 {{x:v1}}, {MODE}",
    f"{{d:v1}} = V_MOV_B32_dpp {{d:v1}}, {{x:v1}}, {DPP}, {EXEC}",
    f"{{d:v1}} = V_ADD_F32_dpp {{d:v1}}, 0, {{x:v1}}, 0, {{y:v1}}, {DPP}, {MODE}",
    f"{{d:v1}} = V_ADD_CO_U32_dpp {{d:v1}}, {{x:v1}}, {{y:v1}}, {DPP}, implicit-def $vcc, {EXEC}",
    f"{{d:v1}} = V_ADD_F32_sdwa 0, {{x:v1}}, 0, {{y:v1}}, 0, 0, 5, 2, 6, 6, {MODE}, "
    "implicit {d:v1}(tied-def 0)",
    f"{{d:v1}} = V_CNDMASK_B32_e32 {{x:v1}}, {{y:v1}}, implicit $vcc, {EXEC}",
    f"{{d:v1}} = V_CNDMASK_B32_e64 0, {{x:v1}}, 0, {{y:v1}}, {{m:s2}}, {EXEC}",
    f"V_CMP_EQ_U32_e32 {{x:v1}}, {{y:v1}}, implicit-def $vcc, {EXEC}",
    f"{{c:s2}} = V_CMP_EQ_U32_e64 {{x:v1}}, {{y:v1}}, {EXEC}",
    f"V_CMPX_EQ_U32_e32 {{x:v1}}, {{y:v1}}, implicit-def $exec, implicit-def $vcc, {EXEC}",
    "{c:s1} = V_READLANE_B32 {x:v1}, {m:s1}",
    f"{{c:s1}} = V_READFIRSTLANE_B32 {{x:v1}}, {EXEC}",
    "{d:v1} = V_WRITELANE_B32 5, {m:s1}, {d:v1}",
    "{d:v1} = V_DIV_FMAS_F32_e64 0, {x:v1}, 0, {y:v1}, 0, {z:v1}, 0, 0, implicit $vcc, " + MODE,
    f"{{d:v1}} = V_FMA_F16_gfx9_e64 8, {{x:v1}}, 0, {{y:v1}}, 0, {{z:v1}}, 0, 0, 0, {MODE}",
    f"{{d:v1}} = V_PK_ADD_F16 8, {{x:v1}}, 8, {{y:v1}}, 0, 0, 0, 0, 0, {MODE}",
    f"{{d:v1}} = V_DOT2_F32_F16 8, {{x:v1}}, 8, {{y:v1}}, 8, {{z:v1}}, 0, 0, 0, 0, 0, {MODE}",
    f"{{d:v1}} = V_DOT2C_F32_F16_e32 {{x:v1}}, {{y:v1}}, {{d:v1}}, {MODE}",
    f"{{d:v2}} = V_FMA_F64_e64 0, {{x:v2}}, 0, {{y:v2}}, 0, {{z:v2}}, 0, 0, {MODE}",
    MFMA.format(4, "F32_4X4X4F16", 2),
    MFMA.format(4, "F32_16X16X16F16", 2),
    MFMA.format(16, "F32_32X32X8F16", 2),
    MFMA.format(4, "F32_16X16X4F32", 1),
    MFMA.format(16, "F32_32X32X2F32", 1),
    MFMA.format(8, "F64_16X16X4F64", 2),
    MFMA.format(2, "F64_4X4X4F64", 2),
    f"{{d:v1}} = GLOBAL_LOAD_DWORD {{x:v2}}, 0, 0, {EXEC}",
    f"{{d:v1}} = GLOBAL_LOAD_DWORD_SADDR {{m:s2}}, {{x:v1}}, 0, 0, {EXEC}",
    f"GLOBAL_STORE_DWORD {{x:v2}}, {{w:v1}}, 0, 0, {EXEC}",
    f"GLOBAL_STORE_DWORDX4 {{x:v2}}, {{w:v4}}, 0, 0, {EXEC}",
    f"BUFFER_STORE_DWORDX4_OFFEN {{w:v4}}, {{x:v1}}, {{m:s4}}, 0, 0, 0, 0, {EXEC}",
    f"BUFFER_LOAD_DWORD_LDS_OFFEN {{x:v1}}, {{m:s4}}, 0, 0, 0, 0, implicit $m0, {EXEC}",
    f"{{d:v1}} = DS_READ_B32_gfx9 {{x:v1}}, 0, 0, {EXEC}",
    f"DS_WRITE_B32_gfx9 {{x:v1}}, {{w:v1}}, 0, 0, {EXEC}",
    "$m0 = S_MOV_B32 {x:s1}",
    "S_SETREG_IMM32_B32 1, 1473, implicit-def $mode, implicit $mode",
    "{c:s1} = S_GETREG_B32 1473, implicit $mode",
    "{c:s1} = S_LOAD_DWORD_IMM {m:s2}, 0, 0",
)
OPERAND = re.compile(r"\{(\w):([vs])(\d+)\}")
FUNCTION = "---\nname: f{}\nbody: |\n  bb.0:\n    {}\n    {}\n    S_ENDPGM 0\n...\n"


def operands_of(template: str) -> dict[str, tuple[str, int]]:
    return {name: (file, int(width)) for name, file, width in OPERAND.findall(template)}


def place(template: str, base: int) -> dict[str, int]:
    """Registers for the operands, apart from each other."""
    found, free = {}, {"v": base, "s": base // 4}
    for name, (file, width) in operands_of(template).items():
        found[name] = free[file]
        free[file] += (width + 3) // 4 * 4
    return found


def render(template: str, registers: dict[str, int]) -> str:
    def name(match: re.Match[str]) -> str:
        file, first = {"v": "vgpr", "s": "sgpr"}[match[2]], registers[match[1]]
        return "$" + "_".join(f"{file}{first + n}" for n in range(int(match[3])))

    return OPERAND.sub(name, template)


def pairs() -> Iterator[tuple[str, str]]:
    """Without a common register, and with one each way that results and store data can meet."""
    for producer, consumer in itertools.product(TEMPLATES, TEMPLATES):
        first, second = place(producer, 0), place(consumer, 128)
        yield render(producer, first), render(consumer, second)
        meets = {"d", "c", "w"} | ({"z"} if "MFMA" in producer else set())
        for one, (file, _) in operands_of(producer).items():
            for other, (other_file, _) in operands_of(consumer).items():
                if one in meets and file == other_file:
                    shared = second | {other: first[one]}
                    yield render(producer, first), render(consumer, shared)


def recognize(arch: str) -> Iterator[list[tuple[str, bytes]]]:
    """What llc makes of each pair, the s_nop it needs between the two among it: text and bytes."""
    text = "".join(FUNCTION.format(number, *pair) for number, pair in enumerate(pairs()))
    command = [str(LLC), "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-mc-encoding"]
    command += ["-start-before=post-RA-hazard-rec", "-x", "mir", "-o", "-", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    for body in re.findall(r"^f\d+:.*\n((?:.*\n)*?)\ts_endpgm", done.stdout, re.M):
        lines = [line.partition(";") for line in body.splitlines() if line.startswith("\t")]
        yield [(line.strip(), _encoding(comment)) for line, _, comment in lines]


def _encoding(comment: str) -> bytes:
    match = re.search(r"encoding: \[([^\]]*)\]", comment)
    assert match, comment
    return bytes(int(byte, 16) for byte in match[1].split(","))
