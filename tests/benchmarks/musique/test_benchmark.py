"""MuSiQue: its files, settings, official figures, and the expert in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder

from certigraph.adapters.protocols import Context
from certigraph.adapters.user_warnings import CallWarning
from certigraph.benchmarks.musique.benchmark import MuSiQue
from certigraph.graphs import ircot, react
from certigraph.nodes.react import pursue
from certigraph.nodes.search import reason
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.run import claim, finish
from certigraph.state.search import HopFinding, chain_argument

ROW: dict[str, Any] = {
    "id": "2hop__1_2",
    "question": "What is the seat of the county where Van Hook Township is located?",
    "answer": "Stanley",
    "answer_aliases": ["Stanley, North Dakota"],
    "answerable": True,
    "question_decomposition": [
        {"id": 1, "question": "Van Hook Township >> located in", "answer": "Mountrail", "paragraph_support_idx": 2},
        {"id": 2, "question": "#1 >> capital", "answer": "Stanley", "paragraph_support_idx": 1},
    ],
    "paragraphs": [
        {"idx": 0, "title": "Stanley", "paragraph_text": "A British explorer.", "is_supporting": False},
        {"idx": 1, "title": "Stanley", "paragraph_text": "It is a town. Stanley is the seat of Mountrail. It is small.",
         "is_supporting": True},
        {"idx": 2, "title": "Van Hook Township", "paragraph_text": "A township in Mountrail County.",
         "is_supporting": True},
    ],
}  # fmt: skip


def benchmark(folder: Path, *rows: dict[str, Any], config: str = "") -> MuSiQue:
    (folder / "musique_ans_dev.jsonl").write_text("\n".join(map(json.dumps, rows or (ROW,))), encoding="utf-8")
    return MuSiQue(folder, config)


def test_the_official_layout_is_read(tmp_path: Path):
    made = benchmark(tmp_path)
    question = made.gold(made.task("2hop__1_2"))
    assert (question.answers, question.support, question.kind) == (("Stanley", "Stanley, North Dakota"), {1, 2}, "2hop")
    assert [hop.passage.title for hop in question.hops] == ["Van Hook Township", "Stanley"]
    assert question.hops[1].finding == "Stanley is the seat of Mountrail."
    assert made.task("2hop__1_2").constants == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answerable": False}, r"musique_ans_dev\.jsonl:2: answerable is false"),
        ({"question_decomposition": [{"question": "q", "answer": "a", "paragraph_support_idx": 7}]}, r":2: .* 7 is no"),
        ({"paragraphs": [{"idx": "x", "paragraph_text": ""}]}, r":2: paragraphs\.0\.idx"),
        ({"id": "2hop__1_2"}, r":2: the id '2hop__1_2' is taken"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_line(tmp_path: Path, change: dict[str, Any], message: str):
    made = benchmark(tmp_path, ROW, {**ROW, "id": "2hop__3_4", **change})
    with pytest.raises(Fault, match=message):
        made.tasks()


def test_a_question_without_decomposition_has_no_known_evidence(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "question_decomposition": []})
    world = made.open(made.task("2hop__1_2"))
    world.step(claim("q", finding="a township", title="Van Hook Township", entity="x"))
    world.step(finish("x", **chain_argument([HopFinding("q", "a township", "x")])))
    parts = world.score().parts
    assert parts["evidence_found"] is None
    assert "chain_coverage" not in parts
    assert parts["support_f1"] == pytest.approx(2 / 3)


def test_the_support_of_a_run_is_the_paragraphs_its_claims_stand_on(tmp_path: Path):
    made = benchmark(tmp_path)
    world = made.open(made.task("2hop__1_2"))
    world.step(claim("b", finding="Stanley is the seat", title="Stanley", entity="Stanley"))  # one of two of this title
    world.step(finish("stanley north dakota", **chain_argument([HopFinding("b", "Stanley is the seat", "Stanley")])))
    scores = world.score()
    wanted = {"em": 1.0, "f1": 1.0, "support_em": 0.0, "support_f1": 2 / 3, "chain_coverage": 0.5}
    assert {name: scores.parts[name] for name in wanted} == pytest.approx(wanted)
    assert made.score_answer(made.task("2hop__1_2"), "Stanley town").parts == pytest.approx({"em": 0.0, "f1": 2 / 3})


def test_predictions_in_the_official_layout_are_scored_over_all_gold_questions(tmp_path: Path):
    made = benchmark(tmp_path, ROW, {**ROW, "id": "2hop__3_4"})
    answered = {"id": "2hop__1_2", "predicted_answer": "Stanley", "predicted_support_idxs": [2, 1]}
    elsewhere = {"id": "elsewhere", "predicted_answer": "x", "predicted_support_idxs": []}
    rows = [{**row, "predicted_answerable": True} for row in (answered, elsewhere)]
    path = tmp_path / "pred.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.warns(CallWarning) as warned:
        figures = made.rates(made.score_file(path))
    assert [str(one.message).partition(": ")[2][:6] for one in warned] == ["1 of 2", "1 of 2"]
    wanted = {"n": 2, "em": 0.5, "f1": 0.5, "support_em": 0.5, "support_f1": 0.5, "chain_coverage": 0.5}
    assert {name: figures[name] for name in wanted} == wanted
    path.write_text(json.dumps(rows[1]), encoding="utf-8")
    with pytest.raises(Fault, match="no answer to any of the 2 questions"):
        made.score_file(path)
    path.write_text(json.dumps({"id": "2hop__1_2"}), encoding="utf-8")
    with pytest.raises(Fault, match=r"pred\.jsonl:1: predicted_answer"):
        made.score_file(path)


def test_the_number_of_hops_is_given_by_named_configurations_only(tmp_path: Path):
    assert MuSiQue.configurations == ("corpus", "hops", "corpus-hops")
    assert [benchmark(tmp_path, config=name).retrieves for name in ("", *MuSiQue.configurations)] == [0, 1, 0, 1]
    with pytest.raises(UnknownName, match="corpus, hops, corpus-hops"):
        MuSiQue(None, "paper")


GRAPHS = {"react": react.build(decide=pursue(alpha=1.0)), "ircot": ircot.build(decide=reason(alpha=1.0))}


def ran(made: MuSiQue, graph: str, task: str, out: Path) -> Result:
    return run(GRAPHS[graph], made, task, context=Context(model="scripted:expert"), out=out)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_expert_answers_all_real_questions(tmp_path: Path, graph: str):
    made = MuSiQue(data_folder("musique"))
    scores = [ran(made, graph, task.id, tmp_path / task.id).scores for task in made.tasks()]
    assert len(scores) == 208
    assert all(s and s.parts["em"] == 1.0 and s.parts["evidence_found"] == 1.0 for s in scores)


@pytest.mark.slow
def test_the_real_files_are_as_their_fact_sheet_says():
    made = MuSiQue(data_folder("musique"))
    dev = [made.gold(task) for task in made.tasks()]
    kinds = [question.kind for question in dev]
    assert (len(dev), len(made.tasks("train")), len({p.id for q in dev for p in q.passages})) == (208, 100, 3367)
    assert [kinds.count(f"{n}hop") for n in (2, 3, 4)] == [135, 50, 23]
    assert sum(len(question.answers) > 1 for question in dev) == 72
    assert all({q.numbers[hop.passage.id] for hop in q.hops} == q.support for q in dev)
