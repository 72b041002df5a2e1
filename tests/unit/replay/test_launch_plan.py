from __future__ import annotations

from asmevo.replay.launch_plan import LaunchSetting, plan_candidate, plan_k0
from asmevo.replay.options import OracleOptions

_ONE_WAVE, _FOUR_WAVES = (64, 1, 1), (16, 16, 1)


def _candidate(
    block: tuple[int, int, int],
    *,
    options: OracleOptions | None = None,
    repeats: int = 1,
    is_emulated: bool = True,
) -> list[LaunchSetting]:
    return list(
        plan_candidate(
            options or OracleOptions(), block=block, repeats=repeats, is_emulated=is_emulated
        )
    )


def test_candidate_of_several_waves_runs_in_every_order_and_both_states() -> None:
    plan = _candidate(_FOUR_WAVES)

    assert [(one.option, one.value) for one in plan] == [
        ("", 0),
        ("reverse_waves", 1),
        ("seed", 1),
        ("seed", 2),
    ]
    assert [one.second_state for one in plan] == [False, True, False, True]
    assert plan[0].label == ""
    assert plan[1].label == (
        "with the waves' turns reversed and with the other content of unwritten state"
    )


def test_candidate_of_one_wave_has_one_order_and_both_states() -> None:
    plan = _candidate(_ONE_WAVE)

    assert [(one.order, one.second_state) for one in plan] == [("", False), ("", True)]


def test_candidate_of_one_wave_without_checks_runs_with_late_memory() -> None:
    plan = _candidate(_ONE_WAVE, options=OracleOptions(checks="none", second_state=False))

    assert [one.option for one in plan] == ["", "seed", "seed"]
    assert not any(one.second_state for one in plan)


def test_candidate_on_a_gpu_has_no_orders_but_repeats_in_both_states() -> None:
    plan = _candidate(_FOUR_WAVES, repeats=3, is_emulated=False)

    assert [one.option for one in plan] == [""] * 3
    assert [one.second_state for one in plan] == [False, True, False]


def test_k0_learns_in_one_state_and_is_held_to_it_in_the_other() -> None:
    for is_emulated in (True, False):
        plan = plan_k0(OracleOptions(), block=_FOUR_WAVES, repeats=1, is_emulated=is_emulated)

        assert plan[0] == LaunchSetting()
        assert not any(one.second_state for one in plan[:-1])
        assert plan[-1] == LaunchSetting(second_state=True)
        assert len(plan) >= 3 or not is_emulated
