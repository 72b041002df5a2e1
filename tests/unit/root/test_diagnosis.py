from __future__ import annotations

import pytest

from asmevo import diagnosis


@pytest.mark.parametrize(
    ("scope", "capabilities", "is_fine"),
    [
        (None, 0, True),
        (0, 0, True),
        (1, 0, False),
        (1, 1 << 19, True),
        (2, 0, False),
        (2, 1 << 19, True),
        (3, 1 << 19, False),
    ],
)
def test_attach_rights_by_yama_scope_and_capability(
    monkeypatch: pytest.MonkeyPatch, scope: int | None, capabilities: int, is_fine: bool
) -> None:
    monkeypatch.setattr(diagnosis, "_read_number", lambda path: scope)
    monkeypatch.setattr(diagnosis, "_effective_capabilities", lambda: capabilities)

    (check,) = diagnosis.find_attach_obstacles()

    assert check.is_fine is is_fine
    assert check.is_fine or "PTRACE" in check.fix


def test_cpu_features_that_the_device_needs_are_missed_one_by_one() -> None:
    features = "fpu avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"

    assert diagnosis.find_missing_cpu_features(f"processor\t: 0\nflags\t\t: {features}\n") == ()
    assert diagnosis.find_missing_cpu_features(f"flags\t: {features.replace('avx2 ', '')}") == (
        "avx2",
    )
    assert "fma" in diagnosis.find_missing_cpu_features("")
