"""Small random programs with every kind of control flow, irreducible cycles among them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from instruction_lines import program_of

from asmevo.codeobject.analysis.control_flow import Program

__all__ = ["follow_paths", "followers", "random_program"]

_BODIES = (
    "v_mov_b32_e32 v1, v2",
    "v_add_u32_e32 v2, v1, v3",
    "v_mov_b32_e32 v3, 0",
    "v_fma_f16 v1, v2, v3, v1",
    "v_mov_b32_sdwa v2, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
    "v_cmp_eq_u32_e32 vcc, v1, v2",
    "v_cndmask_b32_e32 v3, v1, v2, vcc",
    "s_mov_b32 s4, s5",
    "s_add_u32 s5, s4, s6",
    "s_cmp_eq_u32 s4, s6",
    "s_cselect_b32 s6, s4, s5",
    "s_cmov_b32 s4, s6",
    "s_and_saveexec_b64 s[8:9], vcc",
    "s_or_b64 exec, exec, s[8:9]",
    "s_mov_b64 exec, s[8:9]",
)
_ENDS = (
    "s_nop 0",
    "s_cbranch_scc1 b{target}",
    "s_cbranch_execz b{target}",
    "s_branch b{target}",
    "s_endpgm",
)


def random_text(source: random.Random, blocks: int) -> str:
    """Blocks of up to four instructions; each ends by falling through, a branch or the end."""
    lines = []
    for block in range(blocks):
        lines.append(f"b{block}:")
        lines += source.choices(_BODIES, k=source.randrange(5))
        lines.append(source.choice(_ENDS).format(target=source.randrange(blocks)))
    return "\n".join([*lines, f"b{blocks}:", "s_endpgm"])


def random_program(seed: int, blocks: int = 9) -> Program:
    """The program of a seed."""
    return program_of(random_text(random.Random(seed), blocks))


def follow_paths(program: Program, start: int, avoid: Sequence[int] = ()) -> set[int]:
    """Blocks that paths from a block reach without entering those to avoid; the start is one."""
    found = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block not in found and block not in avoid:
            found.add(block)
            pending += program.blocks[block].successors
    return found


def followers(program: Program, position: int) -> Iterator[int]:
    """Positions that may execute directly behind one."""
    block = program.blocks[program.block_at[position]]
    if position + 1 < block.end:
        yield position + 1
    else:
        yield from (program.blocks[one].start for one in block.successors)
