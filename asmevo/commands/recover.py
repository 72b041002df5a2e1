"""The recover and rebuild commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands.options import AsJson, Force, print_json, printable
from asmevo.errors import AssemblerError, CodeObjectError, UsageError
from asmevo.files import read_bounded, write_whole

if TYPE_CHECKING:
    from asmevo.codeobject.object_choice import ObjectChoice

__all__ = ["register"]

Index = Annotated[
    int | None, typer.Option(min=0, help="Of a bundle, the object of this number, from 0")
]

_MAX_INPUT_BYTES = 256 << 20


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("recover", no_args_is_help=True)(recover_command)
    app.command("rebuild", no_args_is_help=True)(rebuild_command)


def recover_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Code object, offload bundle or host library"),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Assembly file to write")],
    *,
    arch: Annotated[str, typer.Option(help="Of a bundle, the object for this processor")] = "",
    kernel: Annotated[str, typer.Option(help="Of a bundle, the object with this kernel")] = "",
    index: Index = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Recover assembly from a code object, checked to give it back

    A bundle, compressed or not, or a host library may hold many objects: name one.

    asmevo recover kernel.hsaco -o kernel.s

    asmevo recover libbitsandbytes_rocm72.so --arch gfx942 --index 13 -o kernel.s
    """
    from asmevo.codeobject.object_choice import ObjectChoice
    from asmevo.codeobject.recover import recover

    _refuse_overwriting(output, force=force)
    with _working_on(file):
        listing = recover(_read_object(file, ObjectChoice(arch=arch, kernel=kernel, index=index)))
    write_whole(output, listing.to_assembly().encode())
    facts = {
        "output": str(output),
        "arch": listing.arch,
        "kernels": [one.name for one in listing.kernels],
        "instructions": len(listing.instructions),
        "kept_as_bytes": sum(one.needs_bytes for one in listing.instructions),
        "raw_descriptors": sorted(listing.raw_descriptors),
        "raw_metadata": listing.has_raw_metadata,
        "edit_blockers": list(listing.edit_blockers),
    }
    if as_json:
        print_json(facts)
        return
    kernels = "1 kernel" if len(listing.kernels) == 1 else f"{len(listing.kernels)} kernels"
    print(
        f"{listing.arch}: {kernels}, {facts['instructions']} instructions, "
        f"{facts['kept_as_bytes']} of them kept as bytes; rebuilt and compared: identical"
    )
    for blocker in listing.edit_blockers:
        print(printable(f"cannot be edited: {blocker}"))
    print(f"Wrote {output}")


def rebuild_command(
    assembly: Annotated[Path, typer.Argument(metavar="FILE.s", help="Assembly to rebuild")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Code object to write")],
    *,
    original: Annotated[
        Path | None,
        typer.Option(help="What the text was recovered from: launches must be as its"),
    ] = None,
    index: Index = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild a code object from recovered assembly, checked line by line

    The architecture is the one that the .amdgcn_target line names; of an original that holds many
    objects, the one for it is taken.

    asmevo rebuild kernel.s -o kernel.hsaco

    asmevo rebuild kernel.s -o kernel.hsaco --original k0.hsaco --force
    """
    from asmevo.codeobject.code_object import CodeObject, content_hash
    from asmevo.codeobject.object_choice import ObjectChoice
    from asmevo.codeobject.rebuild import find_arch, rebuild_checked

    _refuse_overwriting(output, force=force)
    try:
        text = read_bounded(assembly, _MAX_INPUT_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{assembly} is not assembly text") from error
    k0 = None
    with _working_on(assembly):
        arch = find_arch(text)
    if original is not None:
        with _working_on(original):
            k0 = CodeObject.read(_read_object(original, ObjectChoice(arch=arch, index=index)))
    with _working_on(assembly):
        data = rebuild_checked(text, arch, k0=k0)
    write_whole(output, data)
    if as_json:
        facts = {
            "output": str(output),
            "arch": arch,
            "size_bytes": len(data),
            "sha256": content_hash(data),
        }
        print_json(facts)
        return
    print(f"{arch}: {len(data)} bytes, sha256 {content_hash(data)}")
    print(f"Wrote {output}")


def _read_object(path: Path, choice: ObjectChoice) -> bytes:
    from asmevo.codeobject.object_choice import choose_object

    return choose_object(path, choice).data


@contextmanager
def _working_on(path: Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its contents; end what takes too long."""
    from asmevo.codeobject.time_limit import OutOfTime, time_limit

    try:
        with time_limit():
            yield
    except OutOfTime as error:
        raise CodeObjectError(f"{path}: {error}") from error
    except (AssemblerError, CodeObjectError) as error:
        raise type(error)(f"{path}: {error.args[0]}", hint=error.hint) from error


def _refuse_overwriting(output: Path, *, force: bool) -> None:
    if output.exists() and not force:
        raise UsageError(f"{output} exists", hint="overwrite it with --force")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"no folder {output.absolute().parent}")
