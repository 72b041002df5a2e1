"""Under which circumstances code objects are launched, so that what depends on luck shows.

A launch must not depend on the order in which waves take their turns, nor on what memory outside
the captured regions, unwritten registers, LDS or scratch happen to hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from asmevo.replay.options import OracleOptions

__all__ = ["LaunchSetting", "plan_candidate", "plan_k0"]

_WAVE_ITEMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSetting:
    """One launch; the option is one of the emulated device and 0 in other launches."""

    order: str = ""
    """How the order of waves differs from the usual one, for reports; empty when it does not."""
    option: str = ""
    value: int = 0
    second_state: bool = False
    """Unwritten state and guards hold the second pattern."""

    @property
    def label(self) -> str:
        """What is not usual about it; empty when nothing is."""
        state = "with the other content of unwritten state" if self.second_state else ""
        return " and ".join(part for part in (self.order, state) if part)


_USUAL = LaunchSetting()
_SECOND = LaunchSetting(second_state=True)


def _orders(options: OracleOptions, block: tuple[int, int, int]) -> Iterator[LaunchSetting]:
    """Other orders; waves of one workgroup only, and a single one has none.

    With the turns reversed a lost barrier shows in one order or the other.
    """
    has_order = math.prod(block) > _WAVE_ITEMS
    if has_order and options.reverse_waves:
        yield LaunchSetting(order="with the waves' turns reversed", option="reverse_waves", value=1)
    if has_order or options.checks == "none":
        for seed in options.seeds:
            yield LaunchSetting(
                order=f"with waves and latencies permuted by seed {seed}", option="seed", value=seed
            )


def plan_k0(
    options: OracleOptions, *, block: tuple[int, int, int], repeats: int, is_emulated: bool
) -> tuple[LaunchSetting, ...]:
    """Launches of K0 in one state, which show what it does not repeat; last, one in the other."""
    plan = [_USUAL] * max(2, repeats)
    if is_emulated:
        plan = [_USUAL] * max(1, repeats - 1) + list(_orders(options, block))
    return (*plan, _SECOND if options.second_state else _USUAL)


def plan_candidate(
    options: OracleOptions, *, block: tuple[int, int, int], repeats: int, is_emulated: bool
) -> tuple[LaunchSetting, ...]:
    """Launches of a candidate: as usual, then in every order, in both states by turns."""
    plan = [_USUAL] * repeats
    if is_emulated:
        plan += _orders(options, block)
    if not options.second_state:
        return tuple(plan)
    if len(plan) == 1:
        plan.append(_USUAL)
    return tuple(
        replace(setting, second_state=index % 2 == 1) for index, setting in enumerate(plan)
    )
