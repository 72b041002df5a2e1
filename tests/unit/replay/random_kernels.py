"""Random kernels that end, touch only their own memory, and use what analyses easily get wrong.

Masked regions, loops, uniform branches; carries, halves of registers, other lanes, accumulators,
LDS, scalar, global and FLAT loads, loads into LDS, exchanges with another wave between barriers.
Every load is waited for, at the latest where control joins.
"""

from __future__ import annotations

import random

__all__ = ["RandomKernel"]

_SETUP = """
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v3, s7
  v_add_co_u32 v2, vcc, s6, v1
  v_addc_co_u32 v3, vcc, 0, v3, vcc
  v_mov_b32 v5, s5
  v_add_co_u32 v4, vcc, s4, v1
  v_addc_co_u32 v5, vcc, 0, v5, vcc
  v_xor_b32 v6, 0x100, v1
  v_readfirstlane_b32 s28, v1
  s_add_u32 s28, s28, 0x400
  ds_write_b32 v1, v0
  ds_write_b32 v1, v1 offset:512
  ds_write_b32 v1, v1 offset:1024
  ds_write_b32 v1, v1 offset:1536
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_write_b32 v6, v1 offset:1536
  s_waitcnt lgkmcnt(0)
  s_barrier
  v_cmp_gt_u32 vcc, 20, v0
  s_cmp_eq_u32 0, 0
"""
_VALUES = tuple(f"v{number}" for number in range(10, 18))
_SCALARS = tuple(f"s{number}" for number in range(20, 27))
_VECTOR_OPERATIONS = (
    "v_add_u32 {d}, {a}, {b}",
    "v_xor_b32 {d}, {s}, {b}",
    "v_mov_b32 {d}, {s}",
    "v_mov_b32 {d}, {a}",
    "v_mul_lo_u32 {d}, {a}, {s}",
    "v_mac_like {d}, {a}, {b}",
    "v_fma_f16 {d}, {a}, {b}, {c} op_sel:[0,1,0,1]",
    "v_fma_mixhi_f16 {d}, {a}, {b}, {c}",
    "v_med3_i16 {d}, {a}, {b}, {c}",
    "v_add_u32_sdwa {d}, {a}, {b} dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1",
    "v_mov_b32_dpp {d}, {a} row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0",
    "v_mov_b32_dpp {d}, {a} row_shr:2 row_mask:0xf bank_mask:0x5",
    "v_cndmask_b32 {d}, {a}, {b}, vcc",
    "v_cmp_lt_u32 vcc, {a}, {b}",
    "v_cmp_lt_u32_e64 s[{p}:{q}], {a}, {b}",
    "v_add_co_u32 {d}, vcc, {a}, {b}",
    "v_addc_co_u32 {d}, vcc, {a}, {b}, vcc",
    "v_mad_u64_u32 v[16:17], vcc, {a}, {b}, v[10:11]",
    "v_writelane_b32 {d}, {s}, 5",
    "v_readlane_b32 {t}, {a}, 9",
    "v_readfirstlane_b32 {t}, {a}",
    "v_swap_b32 {d}, {a}",
    "v_accvgpr_write_b32 a{n}, {a}",
    "v_accvgpr_read_b32 {d}, a{n}",
    "v_mfma_f32_4x4x4f16 a[0:3], v[10:11], v[12:13], a[0:3]",
    "v_pk_add_f16 {d}, {a}, {b}",
)
_SCALAR_OPERATIONS = (
    "s_add_u32 {t}, {s}, {u}",
    "s_addc_u32 {t}, {s}, {u}",
    "s_mov_b32 {t}, {s}",
    "s_cmp_lt_u32 {s}, {u}",
    "s_cselect_b32 {t}, {s}, {u}",
    "s_cmov_b32 {t}, {s}",
    "s_bitset1_b32 {t}, 3",
    "s_addk_i32 {t}, 5",
    "s_mov_b64 vcc, s[{p}:{q}]",
    "s_and_b64 vcc, vcc, exec",
    "s_mul_i32 {t}, {s}, {u}",
)
_DMA_ROW = "offset:1024"
_LOADS = (
    ("{d}", "global_load_dword {d}, v[2:3], off offset:{o}"),
    ("{d}", "global_load_short_d16_hi {d}, v[2:3], off offset:{o}"),
    ("{d}", "flat_load_dword {d}, v[2:3]"),
    ("{d}", "ds_read_b32 {d}, v1 offset:{o}"),
    ("{d}", "ds_read_u16_d16 {d}, v1 offset:{o}"),
    ("{d}", "ds_bpermute_b32 {d}, v1, {a}"),
    ("{t}", "s_load_dword {t}, s[6:7], {o}"),
    (_DMA_ROW, "s_mov_b32 m0, s28\nglobal_load_lds_dword v[2:3], off"),
    ("{d}", f"ds_read_b32 {{d}}, v1 {_DMA_ROW}"),
    ("", "ds_write_b32 v1, {a} offset:{o}"),
    ("", "global_store_dword v[4:5], {a}, off offset:{o}"),
    ("{d}", "global_load_dword {d}, v[4:5], off offset:{o}"),
)
_EXCHANGE = """s_barrier
ds_write_b32 v1, {0} offset:1536
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 {1}, v6 offset:1536
s_waitcnt lgkmcnt(0)"""
_WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)"


class RandomKernel:
    """The body of a kernel for `kernel_runner`, made from a seed.

    For two waves, the second one maybe short, with 2048 bytes of LDS. What it computed is in the
    output, 512 bytes a row, in rows 2 to 4.
    """

    def __init__(self, seed: int, arch: str) -> None:
        """Make it; gfx90a has no GLOBAL loads into LDS."""
        self._source = random.Random(seed)
        self._loads = [one for one in _LOADS if arch != "gfx90a" or "load_lds" not in one[1]]
        self._labels = 0
        self._pending: list[str] = []
        self.lines: list[str] = []
        for at, value in enumerate(_VALUES):
            self.lines.append(f"v_mul_u32_u24 {value}, {at + 3}, v0")
        for at, scalar in enumerate((*_SCALARS, "s27")):
            self.lines.append(f"s_movk_i32 {scalar}, {37 * at + 5}")
        for at in range(4):
            self.lines.append(f"v_accvgpr_write_b32 a{at}, {at}")
        self._write_block(depth=0, length=14)
        self._flush()
        for value in _VALUES[1:]:
            self.lines += ["v_mul_lo_u32 v10, v10, 31", f"v_add_u32 v10, v10, {value}"]
        self.lines.append("v_mov_b32 v11, s20")
        for scalar in (*_SCALARS[1:], "vcc_lo"):
            self.lines.append(f"v_xor_b32 v11, {scalar}, v11")
        self.lines.append("v_accvgpr_read_b32 v12, a2")
        for at, value in enumerate(("v10", "v11", "v12")):
            self.lines.append(f"global_store_dword v[4:5], {value}, off offset:{512 * at + 1024}")

    @property
    def body(self) -> str:
        """Assembly text."""
        return _SETUP + "\n".join(self.lines)

    def _write_block(self, *, depth: int, length: int) -> None:
        for _ in range(length):
            kind = self._source.random()
            if kind < 0.07 and depth == 0:
                self._flush()
                pair = self._source.choices(_VALUES, k=2)
                self.lines += _EXCHANGE.format(*pair).split("\n")
            elif kind < 0.12 and depth < 3:
                self._write_masked(depth)
            elif kind < 0.18 and depth < 2:
                self._write_loop(depth)
            elif kind < 0.26 and depth < 3:
                self._write_branch(depth)
            elif kind < 0.45:
                register, text = self._source.choice(self._loads)
                self._write(text, loads=register)
            elif kind < 0.8:
                self._write(self._source.choice(_VECTOR_OPERATIONS))
            else:
                self._write(self._source.choice(_SCALAR_OPERATIONS))

    def _write(self, template: str, *, loads: str | None = None) -> None:
        source = self._source
        pair = 2 * source.randrange(10, 13)
        names = {
            "d": source.choice(_VALUES),
            "a": source.choice(_VALUES),
            "b": source.choice(_VALUES),
            "c": source.choice(_VALUES),
            "s": source.choice(_SCALARS),
            "t": source.choice(_SCALARS),
            "u": source.choice(_SCALARS),
            "n": str(source.randrange(4)),
            "o": str(512 * source.randrange(2)),
            "p": str(pair),
            "q": str(pair + 1),
        }
        text = template.replace("v_mac_like", "v_fmac_f32").format(**names)
        if loads is None or any(one in text for one in self._pending) or source.random() < 0.4:
            self._flush()
        self.lines += text.split("\n")
        if loads is not None:
            # A store fills no register; any of its operands may be waited for as well.
            self._pending.append(loads.format(**names) or names["a"])
            if source.random() < 0.5:
                self._flush()

    def _flush(self) -> None:
        if self._pending:
            self.lines.append(_WAIT)
            self._pending.clear()

    def _label(self) -> str:
        self._labels += 1
        return f".Llabel{self._labels}"

    def _write_masked(self, depth: int) -> None:
        """An if, with or without else and with or without a branch around it."""
        source, saved, join = self._source, f"s[{50 + 2 * depth}:{51 + 2 * depth}]", self._label()
        self._flush()
        first = source.choice((f"v_cmp_gt_u32 vcc, {source.randrange(1, 64)}, v0", ""))
        self.lines += [first or "v_cmp_lt_u32 vcc, {}, {}".format(*source.choices(_VALUES, k=2))]
        self.lines.append(f"s_and_saveexec_b64 {saved}, vcc")
        if source.random() < 0.6:
            self.lines.append(f"s_cbranch_execz {join}")
        self._write_block(depth=depth + 1, length=source.randrange(1, 6))
        self._flush()
        self.lines.append(f"{join}:")
        if source.random() < 0.4:
            self.lines.append(f"s_andn2_b64 exec, {saved}, exec")
            self._write_block(depth=depth + 1, length=source.randrange(1, 4))
            self._flush()
        self.lines.append(
            source.choice(("s_mov_b64 exec, {0}", "s_or_b64 exec, exec, {0}")).format(saved)
        )

    def _write_loop(self, depth: int) -> None:
        counter, head = f"s{60 + depth}", self._label()
        self._flush()
        self.lines += [f"s_movk_i32 {counter}, {self._source.randrange(1, 4)}", f"{head}:"]
        self._write_block(depth=depth + 1, length=self._source.randrange(2, 7))
        self._flush()
        self.lines += [f"s_sub_u32 {counter}, {counter}, 1", f"s_cmp_lg_u32 {counter}, 0"]
        self.lines.append(f"s_cbranch_scc1 {head}")

    def _write_branch(self, depth: int) -> None:
        skip = self._label()
        self._flush()
        condition = self._source.choice(("scc0", "scc1", "vccz"))
        self.lines.append(f"s_cbranch_{condition} {skip}")
        self._write_block(depth=depth + 1, length=self._source.randrange(1, 5))
        self._flush()
        self.lines.append(f"{skip}:")
