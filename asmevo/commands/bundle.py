"""The bundle command: look at captured dispatches and check their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asmevo.commands.options import AsJson, print_json, printable
from asmevo.errors import BundleError

if TYPE_CHECKING:
    from asmevo.capture.manifest import Manifest

__all__ = ["register"]

Paths = Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="Bundle files to read")]

app = typer.Typer(no_args_is_help=True, help="Look at bundles and check them")


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="bundle")


@app.command("show", no_args_is_help=True)
def show(paths: Paths, as_json: AsJson = False) -> None:
    """Print what bundles hold: dispatch, origin, memory regions

    Only the manifests are read; `asmevo bundle verify` also reads the contents.

    asmevo bundle show captures/softmax-000.aeb

    asmevo bundle show --json captures/*.aeb
    """
    from asmevo.capture.bundle import open_bundle

    manifests = []
    for path in paths:
        with open_bundle(path) as bundle:
            manifests.append((path, bundle.manifest))
    if as_json:
        print_json(
            {"bundles": [{"path": str(path), **manifest.to_json()} for path, manifest in manifests]}
        )
        return
    for path, manifest in manifests:
        _print_manifest(path, manifest)


@app.command("verify", no_args_is_help=True)
def verify(paths: Paths, as_json: AsJson = False) -> None:
    """Read bundles whole and check every size and hash

    Exit code 1 when any of them is damaged.

    asmevo bundle verify captures/softmax-000.aeb

    asmevo bundle verify captures/*.aeb
    """
    from asmevo.capture.bundle import open_bundle

    results: list[dict[str, Any]] = []
    for path in paths:
        problem = None
        try:
            with open_bundle(path) as bundle:
                bundle.verify()
        except BundleError as error:
            problem = str(error)
        results.append({"path": str(path), "ok": problem is None, "problem": problem})
        if not as_json:
            typer.echo(printable(f"{path}: ok" if problem is None else f"damaged: {problem}"))
    if as_json:
        print_json({"bundles": results})
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


@app.command("pack", no_args_is_help=True)
def pack(
    paths: Paths,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the whole bundles")],
    as_json: AsJson = False,
) -> None:
    """Write bundles that need no chunks beside them

    A capture stores contents that its bundles share once, in the folder
    `chunks` beside them. Packed bundles can be moved alone.

    asmevo bundle pack captures/softmax-000.aeb -o moved

    asmevo bundle pack captures/*.aeb -o moved
    """
    from asmevo.capture.pack import pack as pack_bundle
    from asmevo.errors import UsageError

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output} cannot be made: {error.strerror}") from error
    written = []
    for path in paths:
        target = output / path.name
        if target.exists():
            raise UsageError(f"{target} is there already", hint="give an empty folder")
        pack_bundle(path, target)
        written.append(target)
        if not as_json:
            typer.echo(printable(f"Wrote {target}"))
    if as_json:
        print_json({"bundles": [str(path) for path in written]})


def _print_manifest(path: Path, manifest: Manifest) -> None:
    dispatch, capture = manifest.dispatch, manifest.capture
    typer.echo(printable(str(path)))
    for name, value in (
        ("kernel", dispatch.kernel),
        ("arch", dispatch.arch),
        ("launch", f"{dispatch.launch_function}, stream {dispatch.stream}"),
        ("grid", f"{_times(dispatch.grid)} workgroups of {_times(dispatch.block)}"),
        ("dynamic LDS", f"{dispatch.dynamic_lds_bytes} bytes"),
        ("kernarg", f"{dispatch.kernarg_bytes} bytes explicit"),
        ("code object", f"{manifest.code_object.size_bytes} bytes, {manifest.code_object.sha256}"),
        ("captured", f"{capture.time_utc}, pid {capture.pid}, dispatch {capture.ordinal}"),
        ("pause", f"{capture.pause_ms:.2f} ms"),
        ("command", " ".join(capture.command)),
    ):
        typer.echo(f"  {name:<12} {printable(value)}")
    rows = [("region", "address", "bytes", "kind", "after", "kernarg offset → region offset")]
    for region in manifest.regions:
        changed = "not recorded" if region.after is None else "changed"
        pointers = ", ".join(f"{p.kernarg_offset} → {p.region_offset:#x}" for p in region.pointers)
        rows.append(
            (
                str(region.index),
                f"{region.address:#x}",
                str(region.size_bytes),
                str(region.kind) + (f" {printable(region.symbol[:60])}" if region.symbol else ""),
                "unchanged" if region.after == region.before else changed,
                pointers,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        typer.echo(("  " + "  ".join(cells)).rstrip())
    if not capture.is_redacted:
        typer.echo("  It holds memory of the program: perhaps data of its users.", err=True)


def _times(numbers: tuple[int, int, int]) -> str:
    return "×".join(map(str, numbers))
