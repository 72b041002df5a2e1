from __future__ import annotations

import json

import pytest

from asmevo.replay.comparison import (
    Comparison,
    Difference,
    EnvelopeFacts,
    GuardDifference,
    RegionFacts,
    RegionOutcome,
)
from asmevo.replay.elements import ElementType
from asmevo.replay.job import CandidateOrder, Job
from asmevo.replay.options import OracleOptions
from asmevo.replay.records import Measurement, ObjectResult, ReplayResult
from asmevo.replay.rules import Tolerance
from asmevo.verdict import Status, Verdict

_DIFFERENCE = Difference(
    region=1,
    argument="out (kernarg +0)",
    address=0x1008,
    byte_offset=8,
    element_index=2,
    element_type="f32",
    expected="0x3f800000 (1)",
    actual="0x40000000 (2)",
    differing_bytes=2,
    differing_elements=1,
)
_OUTCOME = RegionOutcome(
    region=1,
    argument="out (kernarg +0)",
    element_type="f32",
    type_source="stores",
    rule="byte-exact",
    bytes_compared=64,
    elements=16,
    differing_elements=1,
    max_ulp=3,
)
_ENVELOPE = EnvelopeFacts(
    region=1,
    argument="out (kernarg +0)",
    element_type="f32",
    elements=16,
    varying_elements=2,
    max_spread=0.5,
    max_magnitude=100.0,
)


def _result(comparison: Comparison, status: Status) -> ObjectResult:
    return ObjectResult(
        name="x.hsaco",
        sha256="0" * 64,
        verdict=Verdict(status=status, reasons=comparison.describe()),
        comparisons=(comparison,),
        measurement=Measurement(modelled_cycles=12, wave_instructions=3, measured_ms=(0.5, 0.25)),
        envelope=(_ENVELOPE,),
    )


def test_object_result_round_trip_through_json_is_equal() -> None:
    guard = GuardDifference(address=0x2000, nearest_region=1, distance=0, differing_bytes=4)
    comparison = Comparison(
        against="K0",
        launch="with the waves' turns reversed",
        outcomes=(_OUTCOME,),
        guard_bytes=128,
        differences=(_DIFFERENCE,),
        guard_difference=guard,
    )
    result = _result(comparison, Status.DIVERGENT)

    assert ObjectResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_object_result_from_unknown_key_is_refused() -> None:
    data = _result(Comparison(against="K0", outcomes=(), guard_bytes=0), Status.PASSED).to_json()
    data["speed"] = "high"

    with pytest.raises(TypeError, match="speed"):
        ObjectResult.from_json(data)


def test_comparison_with_guard_change_only_is_not_identical() -> None:
    guard = GuardDifference(address=0xFF8, nearest_region=0, distance=-8, differing_bytes=1)
    comparison = Comparison(
        against="K0", outcomes=(_OUTCOME,), guard_bytes=8, guard_difference=guard
    )

    assert not comparison.is_identical
    assert "8 bytes before the start of region 0" in comparison.describe()[0]


def test_difference_description_names_address_element_and_values() -> None:
    text = _DIFFERENCE.describe()

    for part in ("region 1", "out", "element 2", "0x1008", "0x3f800000 (1)", "0x40000000 (2)"):
        assert part in text


@pytest.mark.parametrize("status", [Status.DIVERGENT, Status.RUNTIME_FAILURE, Status.UNSUPPORTED])
def test_replay_result_with_one_bad_candidate_has_its_verdict(status: Status) -> None:
    identical = Comparison(against="K0", outcomes=(_OUTCOME,), guard_bytes=0)
    good, bad = _result(identical, Status.PASSED), _result(identical, status)

    def replayed(*candidates: ObjectResult) -> ReplayResult:
        return ReplayResult(
            bundle="b", kernel="k", device="emulated", k0=good, candidates=candidates
        )

    assert replayed(good, good).verdict.has_passed
    assert replayed(good, bad).verdict.status is status


def test_job_and_order_round_trip_through_a_line_are_equal() -> None:
    options = OracleOptions(seeds=(3, 4), tolerance=Tolerance(max_ulp=2, relative=1e-3))
    facts = RegionFacts(index=0, address=4096, argument="x\ny", element_type=ElementType.BF16)
    job = Job(bundle="/a\nb.aeb", repeats=2, options=options, facts=(facts,), is_emulated=True)
    order = CandidateOrder(path="/c d\n.hsaco", name="c", sha256="0" * 64)

    for line in (job.to_line(), order.to_line()):
        assert line.count("\n") == 1
    assert Job.from_line(job.to_line()) == job
    assert CandidateOrder.from_line(order.to_line()) == order
