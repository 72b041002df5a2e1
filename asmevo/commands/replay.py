"""The replay command: run a captured dispatch again, and compare code objects with the original."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands.options import AsJson, DeviceName, LaunchTimeout, print_json, printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from asmevo.replay.comparison import Comparison
    from asmevo.replay.device import Device
    from asmevo.replay.options import CacheState, OracleOptions
    from asmevo.replay.records import Measurement, ObjectResult, ReplayResult

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
        list[str] | None,
        typer.Option(
            "--dtype",
            metavar="[ARG=]TYPE",
            help="Type of the elements, of all memory or of an argument's: f32, bf16, i32, …",
        ),
    ] = None,
    signature: Annotated[
        str, typer.Option("--signature", help="Triton's signature of the kernel: '*fp32,*bf16,i32'")
    ] = "",
    max_ulp: Annotated[
        int | None,
        typer.Option("--max-ulp", min=0, help="Candidates' floats may differ by this many ulp"),
    ] = None,
    relative: Annotated[
        float | None, typer.Option("--rtol", help="… or by this much of the expected value")
    ] = None,
    absolute: Annotated[float | None, typer.Option("--atol", help="… plus this much")] = None,
    equal_zeros: Annotated[
        bool, typer.Option("--equal-zeros", help="… and +0 counts as -0 within such bounds")
    ] = False,
    variants: Annotated[
        int,
        typer.Option(
            "--vary",
            min=0,
            max=100,
            metavar="N",
            help="Hold candidates to N variations of the inputs: other sizes, special values",
        ),
    ] = 0,
    rounds: Annotated[
        int, typer.Option("--rounds", min=0, help="Timed launches by turns with K0, on a GPU")
    ] = 20,
    caches: Annotated[
        str, typer.Option("--caches", help="What L2 holds at timed launches: warm or cold")
    ] = "warm",
    seeds: Annotated[
        int, typer.Option("--seeds", min=0, max=64, help="Random orders of waves, emulated only")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Run a captured dispatch again and compare memory byte by byte

    K0, the bundle's own code object, is compared with the golden output and with itself; each
    --hsaco is compared with K0. Floats need not have the same bits only where K0 does not repeat
    them itself, or within bounds that you give. Exit code 0 when all pass, 1 when one does not.

    asmevo replay captures/softmax-000.aeb

    asmevo replay captures/softmax-000.aeb --hsaco candidate.hsaco --dtype f32
    """
    from asmevo.replay.engine import replay as run_replay
    from asmevo.replay.region_types import TypeHints

    result = run_replay(
        bundle,
        hsaco or [],
        device=_select_device(device, bundle),
        timeout_s=timeout_s,
        repeats=repeats,
        types=TypeHints.parse(dtype or [], signature),
        options=replace(
            _make_options(seeds, max_ulp, relative, absolute, equal_zeros),
            timing_rounds=rounds,
            caches=_parse_caches(caches),
        ),
        variants=variants,
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


def _parse_caches(text: str) -> CacheState:
    from asmevo.replay.options import CacheState

    try:
        return CacheState(text)
    except ValueError:
        raise UsageError(f"unknown --caches {text[:40]!r}", hint="warm or cold") from None


def _make_options(
    seeds: int,
    max_ulp: int | None,
    relative: float | None,
    absolute: float | None,
    equal_zeros: bool,
) -> OracleOptions:
    from asmevo.replay.options import OracleOptions
    from asmevo.replay.rules import Tolerance

    has_bounds = any(bound is not None for bound in (max_ulp, relative, absolute))
    if equal_zeros and not has_bounds:
        raise UsageError("--equal-zeros needs --max-ulp, --rtol or --atol")
    tolerance = Tolerance(
        max_ulp=max_ulp or 0,
        relative=relative or 0.0,
        absolute=absolute or 0.0,
        equal_zeros=equal_zeros,
    )
    numbers = tuple(range(1, seeds + 1))
    return OracleOptions(seeds=numbers, tolerance=tolerance if has_bounds else None)


def _refuse_unfit(result: ReplayResult) -> None:
    """A file that is no code object for this dispatch is a wrong argument, not a finding."""
    from asmevo.verdict import Status

    for candidate in result.candidates:
        if candidate.verdict.status is Status.STATIC_REJECTED:
            raise UsageError(f"{candidate.name}: {candidate.verdict.reasons[0]}")


def _print_result(result: ReplayResult) -> None:
    typer.echo(printable(f"{result.kernel} on {result.device}"))
    for note in result.notes:
        typer.echo(f"note: {printable(note)}")
    for item in (result.k0, *result.candidates):
        typer.echo(printable(f"{item.name}: {_describe_outcome(item)}"))
        for reason in item.verdict.reasons:
            typer.echo(f"  {printable(reason)}")
        for line in _describe_rules(item):
            typer.echo(f"  {printable(line)}")
        if (cost := _describe_cost(item)) is not None:
            typer.echo(f"  {cost}")
    for variant in result.variants:
        used = "held to" if variant.is_used else "not used"
        typer.echo(printable(f"{used}: {variant.changes}. {variant.reason}".rstrip(". ")))


def _describe_outcome(item: ObjectResult) -> str:
    if not item.verdict.has_passed:
        return item.verdict.status.replace("_", " ")
    first = item.comparisons[0]
    against = " and ".join(dict.fromkeys(comparison.against for comparison in item.comparisons))
    is_identical = all(comparison.is_identical for comparison in item.comparisons)
    result = "identical to" if is_identical else "equivalent to"
    launches = len(item.comparisons)
    return (
        f"{result} {against} ({first.regions} regions, {first.bytes_compared:,} bytes, "
        f"{first.elements_compared:,} elements; {first.guard_bytes:,} guard bytes untouched; "
        f"{launches} {'launch' if launches == 1 else 'launches'} compared)"
    )


def _describe_rules(item: ObjectResult) -> list[str]:
    """A line for each region in which something differed within its rule, and for what varies."""
    lines = [
        f"region {facts.region}{_of(facts.argument)}: K0 does not repeat "
        f"{facts.varying_elements} of {facts.elements} elements ({facts.element_type})"
        + ("" if facts.max_spread is None else f"; they differ by up to {facts.max_spread:g}")
        for facts in item.envelope
    ]
    if item.verdict.has_passed:
        for comparison in item.comparisons:
            lines += _describe_accepted(comparison)
    return lines


def _describe_accepted(comparison: Comparison) -> list[str]:
    return [
        f"region {one.region}{_of(one.argument)}: {one.differing_elements} of {one.elements} "
        f"elements ({one.element_type}, by {one.type_source or 'nothing'}) differ, {one.rule}"
        + ("" if one.max_ulp is None else f"; up to {one.max_ulp} ulp")
        for one in comparison.outcomes
        if one.differing_elements
    ]


def _of(argument: str) -> str:
    return f", argument {argument}" if argument else ""


def _describe_times(cost: Measurement) -> str:
    from statistics import median

    count = len(cost.measured_ms)
    text = f"{median(cost.measured_ms):.4f} ms measured (median of {count}"
    if cost.variation is not None:
        text += f", variation {cost.variation:.1%}"
    text += f", caches {cost.caches})" if cost.caches else ")"
    return text if cost.speedup is None else f"{text}; K0 takes {cost.speedup:.3f} times as long"


def _describe_cost(item: ObjectResult) -> str | None:
    cost = item.measurement
    if cost is None:
        return None
    if cost.measured_ms:
        return _describe_times(cost)
    if cost.modelled_cycles is None:
        return None
    return f"{cost.modelled_cycles:,} cycles modelled, {cost.wave_instructions:,} wave instructions"
