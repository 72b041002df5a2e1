"""The replay command: run a captured dispatch again, and compare code objects with the original."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands.options import AsJson, DeviceName, LaunchTimeout, print_json, printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from asmevo.replay.device import Device
    from asmevo.replay.elements import ElementType
    from asmevo.replay.records import ObjectResult, ReplayResult

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("replay", no_args_is_help=True)(replay)


def replay(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The captured dispatch")],
    *,
    hsaco: Annotated[
        list[Path] | None,
        typer.Option("--hsaco", metavar="FILE", help="Code object to compare; repeatable"),
    ] = None,
    device: DeviceName = "emulated",
    timeout_s: LaunchTimeout = 60.0,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Launches of each code object")
    ] = 1,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="How to read memory: f32, bf16, f16, i32, u8, …"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a captured dispatch again and compare memory byte by byte

    K0, the bundle's own code object, is compared with the golden output and with a second run of
    itself; each --hsaco is compared with K0. Exit code 0 when all are identical, 1 when one
    differs or fails.

    asmevo replay captures/softmax-000.aeb

    asmevo replay captures/softmax-000.aeb --hsaco candidate.hsaco --dtype f32
    """
    from asmevo.replay.engine import replay as run_replay

    result = run_replay(
        bundle,
        hsaco or [],
        device=_select_device(device, bundle),
        timeout_s=timeout_s,
        repeats=repeats,
        element_type=_parse_dtype(dtype),
    )
    if as_json:
        print_json(result.to_json())
    else:
        _print_result(result)
    _refuse_unfit(result)
    if not result.verdict.has_passed:
        raise typer.Exit(1)


def _select_device(text: str, bundle: Path) -> Device:
    from asmevo.capture.bundle import open_bundle
    from asmevo.replay.device import Device

    with open_bundle(bundle) as opened:
        return Device.parse(text, arch=opened.manifest.dispatch.arch)


def _parse_dtype(name: str | None) -> ElementType | None:
    from asmevo.replay.elements import ElementType

    if name is None:
        return None
    try:
        return ElementType(name)
    except ValueError:
        known = ", ".join(ElementType)
        raise UsageError(f"unknown --dtype {name[:40]!r}", hint=f"known: {known}") from None


def _refuse_unfit(result: ReplayResult) -> None:
    """A file that is no code object for this dispatch is a wrong argument, not a finding."""
    from asmevo.verdict import Status

    for candidate in result.candidates:
        if candidate.verdict.status is Status.STATIC_REJECTED:
            raise UsageError(f"{candidate.name}: {candidate.verdict.reasons[0]}")


def _print_result(result: ReplayResult) -> None:
    typer.echo(printable(f"{result.kernel} on {result.device}"))
    for item in (result.k0, *result.candidates):
        typer.echo(printable(f"{item.name}: {_describe_outcome(item)}"))
        for reason in item.verdict.reasons:
            typer.echo(f"  {printable(reason)}")
        if (cost := _describe_cost(item)) is not None:
            typer.echo(f"  {cost}")


def _describe_outcome(item: ObjectResult) -> str:
    if not item.verdict.has_passed:
        return item.verdict.status.replace("_", " ")
    first = item.comparisons[0]
    against = " and ".join(dict.fromkeys(comparison.against for comparison in item.comparisons))
    return (
        f"identical to {against} ({first.regions} regions, {first.bytes_compared:,} bytes; "
        f"{first.guard_bytes:,} guard bytes untouched)"
    )


def _describe_cost(item: ObjectResult) -> str | None:
    cost = item.measurement
    if cost is None:
        return None
    if cost.measured_ms:
        times = sorted(cost.measured_ms)
        return f"{times[len(times) // 2]:.4f} ms measured (median of {len(times)})"
    if cost.modelled_cycles is None:
        return None
    return f"{cost.modelled_cycles:,} cycles modelled, {cost.wave_instructions:,} wave instructions"
