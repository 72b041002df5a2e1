"""Writes the instructions of code objects to files: dump_texts FOLDER PATH..."""

from __future__ import annotations

import sys
from pathlib import Path

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import find_code_objects, find_files
from asmevo.errors import AsmevoError


def main() -> int:
    """Name each file by a number and the target."""
    folder, *paths = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.text"):
        old.unlink()
    number = 0
    for path in find_files(paths):
        try:
            for found in find_code_objects(path):
                code_object = CodeObject.read(found.data)
                name = f"{number}.{code_object.target}.text"
                (folder / name).write_bytes(code_object.text.data)
                number += 1
        except AsmevoError as error:
            print(f"{path}: {error}", file=sys.stderr)
    return 0 if number else 1


if __name__ == "__main__":
    sys.exit(main())
