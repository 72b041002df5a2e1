from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from small_kernels import FakeReplayer, build_kernel, count_issue_slots, texts_of

from asmevo.codeobject.code_object import CodeObject, content_hash
from asmevo.codeobject.open_listing import open_listing
from asmevo.codeobject.recover import recover
from asmevo.errors import GateError, UsageError
from asmevo.optimizer.gate.cost import Cost, CostUnit, compare_costs, read_cost
from asmevo.optimizer.gate.judge import Gate
from asmevo.optimizer.kernel_view import view_kernel
from asmevo.optimizer.mutators import Mutator
from asmevo.optimizer.mutators.implied_wait import ImpliedWait
from asmevo.optimizer.mutators.shrunk_nop import ShrunkNop
from asmevo.optimizer.proposal import InsertAfter, Proposal
from asmevo.optimizer.run_folder import RunFolder, RunIdentity
from asmevo.optimizer.search import Budget, Search
from asmevo.replay.records import Measurement
from asmevo.verdict import Status, Verdict

STORE = "global_store_dword v[10:11], v1, off\n"
NOPS = "v_mov_b32 v1, v2\ns_nop 3\nv_mov_b32 v3, v1\ns_nop 4\n" + STORE
WAITS = "s_waitcnt lgkmcnt(0)\n" * 2
MUTATORS = (ImpliedWait(), ShrunkNop())


def identity_of(data: bytes) -> RunIdentity:
    return RunIdentity(
        k0_sha256=content_hash(data), kernel="work", arch="gfx942", device="fake", bundles=("b",)
    )


def run_search(
    path: Path,
    body: str,
    replayer: FakeReplayer,
    *,
    mutators: tuple[Mutator, ...] = MUTATORS,
    candidates: int | None = None,
) -> tuple[RunFolder, str]:
    data = build_kernel(body)
    scratch = path.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    gate = Gate(k0=CodeObject.read(data), replayers=[replayer], folder=scratch)
    with closing(RunFolder(path, identity_of(data))) as folder:
        search = Search(
            folder=folder, gate=gate, budget=Budget(candidates=candidates), mutators=mutators
        )
        return folder, search.run(data)


def best_texts(path: Path) -> list[str]:
    return texts_of(view_kernel(recover((path / "best.hsaco").read_bytes()), "work"))


def test_search_applies_all_sites_of_a_mutator_at_once(tmp_path: Path) -> None:
    replayer = FakeReplayer(build_kernel(NOPS))

    folder, ended = run_search(tmp_path / "run", NOPS, replayer)

    assert ended == "no proposal improves"
    assert replayer.runs == 1
    assert [node.mutator for node in folder.nodes] == [None, "W6"]
    assert not any("s_nop" in text for text in best_texts(tmp_path / "run"))


def test_search_halves_what_diverges_and_keeps_the_rest(tmp_path: Path) -> None:
    def is_equal(data: bytes) -> bool:
        return any(one.text == "s_nop 4" for one in recover(data).instructions)

    replayer = FakeReplayer(build_kernel(NOPS), is_equal=is_equal)

    folder, _ = run_search(tmp_path / "run", NOPS, replayer)

    assert folder.best.mutator == "W6"
    assert [text for text in best_texts(tmp_path / "run") if "s_nop" in text] == ["s_nop 4"]


def test_search_commits_nothing_that_is_not_faster(tmp_path: Path) -> None:
    replayer = FakeReplayer(build_kernel(NOPS), cost=lambda data: 1000)

    folder, _ = run_search(tmp_path / "run", NOPS, replayer)

    assert folder.best.parent is None
    assert [one.verdict.status for one in folder.attempts.values()] == [Status.NOT_FASTER]


def test_search_stops_at_its_budget_and_goes_on_later(tmp_path: Path) -> None:
    body = WAITS + NOPS
    replayer = FakeReplayer(build_kernel(body))

    folder, ended = run_search(tmp_path / "run", body, replayer, candidates=1)
    assert ended == "budget spent"
    assert [node.mutator for node in folder.nodes] == [None, "W1"]

    folder, ended = run_search(tmp_path / "run", body, replayer)
    assert ended == "no proposal improves"
    assert [node.mutator for node in folder.nodes] == [None, "W1", "W6"]
    assert len(folder.attempts) == 2


def test_search_does_not_judge_a_logged_attempt_again(tmp_path: Path) -> None:
    replayer = FakeReplayer(build_kernel(NOPS), cost=lambda data: 1000)
    run_search(tmp_path / "run", NOPS, replayer)
    runs = replayer.runs

    run_search(tmp_path / "run", NOPS, replayer)

    assert replayer.runs == runs


def test_search_of_a_kernel_that_is_not_understood_says_why(tmp_path: Path) -> None:
    body = "s_cmp_eq_u32 s4, 0\ns_setvskip s4, 1\n" + NOPS
    replayer = FakeReplayer(build_kernel(body))

    folder, ended = run_search(tmp_path / "run", body, replayer)

    assert ended == "no proposal improves"
    assert not folder.attempts


def test_search_whose_k0_fails_is_an_error(tmp_path: Path) -> None:
    replayer = FakeReplayer(build_kernel(NOPS), is_equal=lambda data: False)

    with pytest.raises(GateError, match="K0 itself"):
        run_search(tmp_path / "run", NOPS, replayer)


def test_run_folder_holds_what_a_later_stage_reads(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_search(path, NOPS, FakeReplayer(build_kernel(NOPS)))

    assert (path / "k0.hsaco").read_bytes() == build_kernel(NOPS)
    assert (path / "best.hsaco").read_bytes() != (path / "k0.hsaco").read_bytes()
    assert "s_endpgm" in (path / "best.s").read_text()
    nodes = json.loads((path / "lineage.json").read_text())["nodes"]
    assert nodes[1]["parent"] == nodes[0]["sha256"]
    (line,) = (path / "attempts.jsonl").read_text().splitlines()
    attempt = json.loads(line)
    assert attempt["verdict"] == {"status": "passed", "reasons": []}
    assert attempt["sha256"] == nodes[1]["sha256"]
    assert attempt["cost_unit"] == "modelled cycles"


def test_run_folder_with_a_torn_log_line_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "run"
    replayer = FakeReplayer(build_kernel(NOPS), cost=lambda data: 1000)
    run_search(path, NOPS, replayer)
    log = path / "attempts.jsonl"
    log.write_bytes(log.read_bytes() + b'{"id": "torn')

    folder, _ = run_search(path, NOPS, replayer)

    assert "torn" not in log.read_text()
    assert len(folder.attempts) == 1


def _forget_best(path: Path) -> None:
    (path / "best.hsaco").write_bytes(b"")


def test_run_folder_with_a_lost_best_gets_it_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    replayer = FakeReplayer(build_kernel(NOPS))
    folder, _ = run_search(path, NOPS, replayer)
    _forget_best(path)

    run_search(path, NOPS, replayer)

    assert content_hash((path / "best.hsaco").read_bytes()) == folder.best.sha256


def _damage_lineage(path: Path) -> None:
    (path / "lineage.json").write_text("{}")


def _damage_log(path: Path) -> None:
    (path / "attempts.jsonl").write_text("no json\n")


def _lose_object(path: Path) -> None:
    for file in (path / "objects").iterdir():
        file.write_bytes(b"other")


def _lose_costs(path: Path) -> None:
    content = json.loads((path / "lineage.json").read_text())
    content["nodes"][0]["costs"] = []
    (path / "lineage.json").write_text(json.dumps(content))


def _nest_log(path: Path) -> None:
    (path / "attempts.jsonl").write_text("[" * 100_000 + "\n")


def _log_a_number(path: Path) -> None:
    (path / "attempts.jsonl").write_text("7\n")


@pytest.mark.parametrize(
    "damage",
    [_damage_lineage, _damage_log, _lose_object, _lose_costs, _nest_log, _log_a_number],
)
def test_run_folder_that_is_damaged_is_refused(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "run"
    replayer = FakeReplayer(build_kernel(NOPS))
    run_search(path, NOPS, replayer)
    damage(path)

    with pytest.raises(UsageError, match="damaged"):
        run_search(path, NOPS, replayer)


def test_run_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_search(path, NOPS, FakeReplayer(build_kernel(NOPS)))

    with pytest.raises(UsageError, match="other bundles"):
        run_search(path, WAITS + NOPS, FakeReplayer(build_kernel(WAITS + NOPS)))


def test_run_folder_of_another_timing_model_is_refused(tmp_path: Path) -> None:
    data = build_kernel(NOPS)
    run_search(tmp_path / "run", NOPS, FakeReplayer(data))

    with pytest.raises(UsageError, match="timing model changed"):
        run_search(tmp_path / "run", NOPS, FakeReplayer(data, cost=lambda data: 1000))


def test_run_folder_killed_before_its_first_commit_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFolder(path, identity_of(build_kernel(NOPS))).close()
    (path / "k0.hsaco").write_bytes(b"cut")
    (path / "lineage.json.7.partial").write_bytes(b"{")

    folder, _ = run_search(path, NOPS, FakeReplayer(build_kernel(NOPS)))

    assert folder.best.mutator == "W6"
    assert (path / "k0.hsaco").read_bytes() == build_kernel(NOPS)


def test_run_folder_in_use_is_refused(tmp_path: Path) -> None:
    identity = identity_of(build_kernel(NOPS))

    with (
        closing(RunFolder(tmp_path / "run", identity)),
        pytest.raises(UsageError, match="another process"),
    ):
        RunFolder(tmp_path / "run", identity)


def test_run_folder_in_use_keeps_the_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "run"
    data = build_kernel(NOPS)
    run_search(path, NOPS, FakeReplayer(data))
    with closing(RunFolder(path, identity_of(data))):
        with (path / "attempts.jsonl").open("ab") as log:
            log.write(b"half a li")
        before = (path / "attempts.jsonl").read_bytes()

        with pytest.raises(UsageError, match="another process"):
            RunFolder(path, identity_of(data))

        assert (path / "attempts.jsonl").read_bytes() == before


def test_folder_that_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("precious")

    with pytest.raises(UsageError, match="not empty"):
        run_search(tmp_path / "run", NOPS, FakeReplayer(build_kernel(NOPS)))


def test_cost_of_modelled_cycles_has_no_variation() -> None:
    cost = read_cost(Measurement(modelled_cycles=1000))

    assert cost == Cost(value=1000.0, unit=CostUnit.MODELLED_CYCLES)
    assert compare_costs([cost], [cost]) == (1.0, 1.002)


def test_cost_of_noisy_samples_asks_for_a_larger_gain() -> None:
    cost = read_cost(Measurement(measured_ms=(1.0, 1.1, 0.9)))

    assert cost.unit is CostUnit.MEASURED_MS
    assert compare_costs([cost], [cost])[1] == pytest.approx(1 + 0.85 * 0.1)


def test_cost_that_no_device_reported_is_an_error() -> None:
    with pytest.raises(GateError):
        read_cost(Measurement())


def test_fake_cost_counts_nops_by_their_length() -> None:
    assert count_issue_slots(build_kernel(NOPS)) > count_issue_slots(build_kernel(STORE))


def test_search_of_an_object_that_cannot_be_edited_freely_patches_it(tmp_path: Path) -> None:
    body = "s_getpc_b64 s[20:21]\n" + NOPS
    data = build_kernel(body)
    assert recover(data).edit_blockers

    run_search(tmp_path / "run", body, FakeReplayer(data))

    best = (tmp_path / "run" / "best.hsaco").read_bytes()
    assert len(best) == len(data)
    nops = [one for one in best_texts(tmp_path / "run") if "s_nop" in one]
    assert nops == ["s_nop 0", "s_nop 0"]
    text = (tmp_path / "run" / "best.s").read_text()
    assert text.startswith("; cannot be rebuilt from this text")


def test_gate_refuses_edits_that_do_not_fit_in_place_and_resources_that_cannot_be_told(
    tmp_path: Path,
) -> None:
    data = build_kernel("s_getpc_b64 s[20:21]\n" + NOPS)
    view = view_kernel(open_listing(data), "work")
    gate = Gate(k0=CodeObject.read(data), replayers=[], folder=tmp_path)

    def judge(*texts: str) -> Verdict:
        edits = (InsertAfter(id=1, texts=texts),)
        proposal = Proposal(mutator="test", sites=(1,), edits=edits, hypothesis="")
        return gate.judge(view, proposal, ()).verdict

    assert judge("s_nop 0").status is Status.EDIT_INVALID
    assert "does not fit" in judge("s_nop 0").reasons[0]
    assert judge("s_set_gpr_idx_on s0, gpr_idx(SRC0)").status is Status.STATIC_REJECTED
