from __future__ import annotations

from asmevo import errors
from asmevo.errors import AsmevoError


def test_error_with_newlines_and_hint_is_one_line() -> None:
    error = AsmevoError("first\n  second", hint="do this")

    assert str(error) == "first second (do this)"


def test_every_exported_error_is_an_asmevo_error_with_an_exit_code() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]

    assert all(issubclass(kind, AsmevoError) for kind in kinds)
    assert {kind.exit_code for kind in kinds} <= {1, 2, 4}


def test_every_exported_error_stands_in_the_tree_of_the_docstring() -> None:
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in errors.__all__)
