"""The page that lists the emulated device's instructions is what its tables say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[3] / "scripts" / "instruction_table.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("instruction_table", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_instruction_pages_committed_equal_the_generated_ones() -> None:
    for path, text in load_script().render().items():
        assert path.read_text() == text, f"{path.name}: run scripts/instruction_table"
