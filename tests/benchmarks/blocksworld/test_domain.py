"""BlocksWorld: parity with PlanBench's plans and prompts, and properties of simulator, wording and planners."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from certigraph.adapters.models.scripts import (
    Situation,
    use_situation,
)
from certigraph.benchmarks.blocksworld.benchmark import (
    BlocksInstance,
    BlocksWorld,
    BlocksWorldEnvironment,
    random_instance,
    read_problem,
    read_problems,
)
from certigraph.benchmarks.blocksworld.domain import (
    HAND_EMPTY,
    BlockFact,
    BlockMove,
    BlocksState,
    applicable_moves,
    apply_move,
    clear,
    decide_condition,
    describe_state,
    format_fact,
    format_facts,
    format_move,
    holding,
    is_possible,
    on,
    ontable,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
    unmet_preconditions,
)
from certigraph.benchmarks.blocksworld.expert import answer_request, find_linear_plan, find_plan, find_shortest_plan
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Predicate, Task
from certigraph.state.run import Evidence
from certigraph.state.step import StepSubtask

ROOT = Path(__file__).parents[3]

PLANBENCH = {
    "generated_basic": ("planbench_blocksworld_task_1_plan_generation.json.gz", 342, 231),
    "generated_basic_3": ("planbench_blocksworld_3_task_1_plan_generation.json.gz", 69, 50),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    root = os.environ.get("CERTIGRAPH_DATA")
    path = Path(root or "", "blocksworld")
    if not root or not path.is_dir():
        pytest.skip("CERTIGRAPH_DATA names no folder with blocksworld/")
    return path


@pytest.fixture(scope="module")
def problems(folder: Path) -> dict[str, BlocksInstance]:
    return read_problems(folder / "instances.tar.gz")


def planbench(folder: Path, name: str) -> list[dict]:
    with gzip.open(folder / PLANBENCH[name][0], "rt") as file:
        return json.load(file)["instances"]


def run(state: BlocksState, moves: list[BlockMove]) -> BlocksState:
    for move in moves:
        state = apply_move(state, move)
    return state


def moves_in(text: str) -> list[BlockMove]:
    moves = [parse_action(line) for line in text.splitlines() if line.strip()]
    assert None not in moves
    return moves


@st.composite
def states(draw, most=7):
    """A state that random moves reach, with or without a block in the hand."""
    return walk(draw, draw(st.integers(2, most)))


def walk(draw, blocks: int) -> BlocksState:
    state = random_instance(blocks, draw(st.integers(0, 10**6))).state
    for choice in draw(st.lists(st.integers(0, 10**6), max_size=6)):
        moves = applicable_moves(state)
        state = apply_move(state, moves[choice % len(moves)])
    return state


def blocks_of(state: BlocksState) -> set[str]:
    return {block for fact in state for block in fact.args}


def ground_moves(blocks: set[str]) -> list[BlockMove]:
    names = sorted(blocks)
    return [BlockMove(o, (x,)) for o in ("pick-up", "put-down") for x in names] + [
        BlockMove(o, pair) for o in ("stack", "unstack") for pair in product(names, names)
    ]


# --- PlanBench's data


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANBENCH)
def test_every_ground_truth_plan_is_valid(folder, problems, name):
    items = planbench(folder, name)
    assert len(items) == PLANBENCH[name][1]
    for item in items:
        problem = problems[f"{name}/instance-{item['instance_id']}"]
        assert problem.solved_by(run(problem.state, moves_in(item["ground_truth_plan"])))


@pytest.mark.parametrize("name", PLANBENCH)
def test_search_finds_plans_as_short_as_the_ground_truth(folder, problems, name):
    for item in planbench(folder, name)[:60]:
        problem = problems[f"{name}/instance-{item['instance_id']}"]
        best = find_shortest_plan(problem.state, problem.goal)
        assert problem.solved_by(run(problem.state, best))
        assert len(best) == len(moves_in(item["ground_truth_plan"]))


@pytest.mark.parametrize("name", PLANBENCH)
def test_prompts_read_and_written_as_in_planbench(folder, problems, name):
    queries = {item["instance_id"]: item["query"] for item in planbench(folder, name) if item.get("query")}
    assert len(queries) == PLANBENCH[name][2]
    for number, query in queries.items():
        problem = problems[f"{name}/instance-{number}"]
        rules, *_, statement = query.split("[STATEMENT]")
        assert parse_facts(rules) == frozenset()
        assert f"I have that, {format_facts(problem.init)}.\n" in statement
        assert f"to have that {format_facts(problem.goal)}.\n" in statement
        assert parse_facts(statement.partition("My goal")[0]) == problem.state
        assert parse_goal(query) == frozenset(problem.goal)
        assert moves_in(query.partition("[PLAN]")[2].partition("[PLAN END]")[0])


@pytest.mark.slow
def test_all_problems_parse_and_the_planner_solves_them(problems):
    sets = Counter(name.partition("/")[0] for name in problems)
    assert sets == {"generated_basic": 343, "generated_basic_3": 70, "generated": 342, "hard": 73}
    assert {len(p.blocks) for n, p in problems.items() if n.startswith("hard/")} <= set(range(6, 16))
    for problem in problems.values():
        assert not problem.solved_by(problem.state)
        assert problem.solved_by(run(problem.state, find_linear_plan(problem.state, problem.goal)))
        assert parse_observed(describe_state(problem.state)) == problem.state


@pytest.mark.slow
def test_benchmark_offers_the_instance_sets_as_splits(folder):
    benchmark = BlocksWorld(folder)
    ids = [task.id for task in benchmark.tasks("generated_basic")]
    assert len(ids) == 343 and ids[:2] == ["generated_basic/instance-1", "generated_basic/instance-2"]
    world = benchmark.open(benchmark.task("generated_basic/instance-1"))
    assert world.instance.goal == (on("c", "b"),)
    with pytest.raises(KeyError, match="generated, generated_basic, generated_basic_3, hard"):
        benchmark.tasks("easy")


# --- The simulator against a physical model: stacks as tuples, bottom first, and a hand


def physical(state: BlocksState) -> tuple[frozenset[tuple[str, ...]], str | None]:
    above = {fact.args[1]: fact.args[0] for fact in state if fact.name == "on"}
    stacks = []
    for bottom in (fact.args[0] for fact in state if fact.name == "ontable"):
        stack = [bottom]
        while stack[-1] in above:
            stack.append(above[stack[-1]])
        stacks.append(tuple(stack))
    return frozenset(stacks), next((fact.args[0] for fact in state if fact.name == "holding"), None)


def physically(stacks: frozenset[tuple[str, ...]], hand: str | None, move: BlockMove):
    """The model after the move, None when it cannot be done."""
    block, *rest = move.blocks
    into_hand = move.operator in ("pick-up", "unstack")
    under = tuple(rest)
    for stack in stacks | {()}:
        if into_hand and hand is None and stack[-1:] == (block,) and stack[-2:-1] == under:
            return (stacks - {stack} | {stack[:-1]}) - {()}, block
        if not into_hand and hand == block and stack[-1:] == under:
            return stacks - {stack} | {(*stack, block)}, None
    return None


@pytest.mark.slow
@given(states())
def test_moves_do_what_a_hand_with_stacks_can_do(state):
    for move in ground_moves(blocks_of(state)):
        expected = physically(*physical(state), move)
        assert (move in applicable_moves(state)) == (not unmet_preconditions(state, move)) == (expected is not None)
        if expected is not None:
            assert physical(apply_move(state, move)) == expected
        else:
            with pytest.raises(ValueError, match="not applicable"):
                apply_move(state, move)


@pytest.mark.slow
@given(states())
def test_a_state_stays_complete(state):
    blocks, facts = blocks_of(state), Counter(fact.name for fact in state)
    assert facts["handempty"] + facts["holding"] == 1
    assert facts["on"] + facts["ontable"] + facts["holding"] == len(blocks)
    assert facts["clear"] == facts["ontable"]
    BlocksInstance(blocks=tuple(blocks), init=tuple(state), goal=(HAND_EMPTY,))


# --- Wording

names = st.one_of(
    st.sampled_from("abcdefghijklmnopqrstuvwxyz"),
    st.integers(0, 10**4).map(str),
    st.from_regex(r"[a-z]\d{1,3}", fullmatch=True).filter(str.isascii),
)
facts = st.one_of(
    st.builds(clear, names), st.builds(holding, names), st.builds(on, names, names), st.builds(ontable, names)
)


@pytest.mark.slow
@given(st.frozensets(facts | st.just(HAND_EMPTY), max_size=12))
def test_facts_survive_wording(some):
    text = "; ".join(map(format_fact, some))
    assert parse_facts(text) == parse_facts(text.upper().replace(" ", "\n")) == some


@pytest.mark.slow
@given(names, names, st.sampled_from(["pick-up", "put-down", "stack", "unstack"]))
def test_moves_survive_wording(x, y, operator):
    move = BlockMove(operator, (x, y) if "stack" in operator else (x,))
    assert parse_action(format_move(move)) == move
    assert parse_action(f" {format_move(move).capitalize()}.\n") == move
    assert parse_action(f"({operator} {' '.join(move.blocks)})") == move


def test_wording_is_planbenchs_and_goes_on_beyond_its_colours():
    assert format_move(BlockMove("unstack", ("d", "13"))) == "unstack the yellow block from on top of the block 13"
    assert format_fact(holding("c")) == "the hand is currently holding orange block"
    assert parse_facts("hmm, the hand is currently holding the Block 13!") == {holding("13")}
    assert parse_facts("the block that is clear, the red block is not clear, if my hand is empty") == frozenset()
    assert parse_action("(unstack yellow m)") == BlockMove("unstack", ("d", "m"))
    assert [parse_action(text) for text in ("stack the red block", "(pick-up a b)", "dance", "")] == [None] * 4
    with pytest.raises(Fault, match="'crate' has no wording"):
        format_fact(clear("crate"))


# --- Planners


@given(st.integers(2, 12), st.integers(0, 10**6))
def test_planner_solves_every_generated_instance(blocks, seed):
    problem = random_instance(blocks, seed)
    assert problem == random_instance(blocks, seed)
    assert not problem.solved_by(problem.state)
    moves = find_plan(problem.state, problem.goal)
    assert problem.solved_by(run(problem.state, moves))
    assert len(moves) <= 4 * blocks


@pytest.mark.slow
@given(st.data(), st.integers(2, 9))
def test_linear_plan_reaches_any_part_of_any_state(data, blocks):
    start, end = walk(data.draw, blocks), walk(data.draw, blocks)
    goal = data.draw(st.sets(st.sampled_from(sorted(end))))
    assert goal <= run(start, find_linear_plan(start, goal))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.data(), st.integers(2, 4))
def test_search_is_never_longer_and_both_agree_on_what_is_possible(data, blocks):
    start = walk(data.draw, blocks)
    block = st.sampled_from(sorted(blocks_of(start)))
    any_fact = st.one_of(
        st.builds(clear, block), st.builds(holding, block), st.builds(on, block, block), st.builds(ontable, block)
    )
    goal = data.draw(st.frozensets(any_fact | st.just(HAND_EMPTY), max_size=4))
    if is_possible(goal):
        best = find_shortest_plan(start, goal)
        assert goal <= run(start, best)
        assert len(best) <= len(find_linear_plan(start, goal))
    else:
        assert not reachable(start, goal)
        for planner in (find_shortest_plan, find_linear_plan):
            with pytest.raises(Fault, match="no state satisfies"):
                planner(start, goal)


def reachable(start: BlocksState, goal: frozenset[BlockFact]) -> bool:
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        new = {apply_move(here, move) for move in applicable_moves(here)} - seen
        seen |= new
        todo += new
    return any(goal <= state for state in seen)


@pytest.mark.parametrize("blocks", [3, 12])
def test_planner_refuses_what_no_state_can_be(blocks):
    state = random_instance(blocks, 0).state
    with pytest.raises(Fault, match="no state satisfies"):
        find_plan(state, [on("a", "b"), on("b", "c"), on("c", "a")])
    with pytest.raises(Fault, match="lacks: \\['z'\\]"):
        find_plan(state, [clear("z")])


# --- The world


@pytest.mark.slow
@given(states(), st.data())
def test_refusals_change_nothing_and_deny_what_fails(state, data):
    world = world_at(state)
    refused = [move for move in ground_moves(blocks_of(state)) if unmet_preconditions(state, move)]
    assume(refused)
    move = data.draw(st.sampled_from(refused))
    answer = world.step(Action(text=format_move(move)))
    assert not answer.accepted and world.state == state
    assert parse_facts(answer.text) == parse_observed(answer.text) == state
    assert answer.text.startswith(f"Cannot {format_move(move)}: ")
    assert " not " in answer.text.partition("As observed")[0]


@pytest.mark.slow
@given(states())
def test_admissible_actions_are_accepted_and_change_the_state(state):
    for text in world_at(state).admissible():
        world = world_at(state)
        answer = world.step(Action(text=text))
        assert answer.accepted and world.state != state
        assert parse_observed(answer.text) == world.state


def world_at(state: BlocksState) -> BlocksWorldEnvironment:
    return BlocksWorldEnvironment(BlocksInstance(blocks=tuple(blocks_of(state)), init=tuple(state), goal=(HAND_EMPTY,)))


def test_what_is_not_an_action_is_refused_with_the_forms_that_are():
    world = world_at(random_instance(3, 0).state)
    answer = world.step(Action(text="the gold block is clear"))
    assert not answer.accepted and "pick up the X, put down the X" in answer.text
    assert parse_observed(answer.text) == world.state


def test_an_episode_ends_with_the_goal_and_starts_again():
    benchmark = BlocksWorld()
    task = benchmark.task("tower-4")
    world = benchmark.open(task)
    first = world.reset()
    answers = [world.step(Action(text=format_move(m))) for m in find_plan(world.state, parse_goal(task.goal))]
    assert [answer.done for answer in answers] == [False] * 5 + [True]
    assert [answer.reward for answer in answers] == [0.0] * 5 + [1.0]
    assert world.score().value == 1.0
    world.step(Action(text="unstack the red block from on top of the blue block"))
    assert (world.score().value, world.score().parts) == (0.0, {"goal_facts": 2 / 3})
    assert world.reset() == first


@pytest.mark.slow
def test_a_tower_of_300_is_built_from_words_alone():
    benchmark = BlocksWorld()
    task = benchmark.task("tower-300")
    world = benchmark.open(task)
    moves = find_plan(parse_observed(world.reset().text), parse_goal(task.goal))
    assert len(moves) == 598
    assert all(world.step(Action(text=format_move(move))).accepted for move in moves)
    assert world.score().value == 1.0


# --- The benchmark and its files


def test_default_tasks_rebuild_exactly_from_their_json():
    benchmark = BlocksWorld()
    tasks = benchmark.tasks()
    assert len({task.id for task in tasks}) == 20
    for task in tasks:
        world = benchmark.open(Task.model_validate_json(task.model_dump_json()))
        blocks, seed = map(int, task.id.split("-"))
        assert world.instance == random_instance(blocks, seed)
        assert parse_goal(task.goal) == frozenset(world.instance.goal)


def test_generated_tasks_never_change():
    assert random_instance(4, 0).goal == (on("c", "d"),)
    assert physical(random_instance(5, 1).state) == ({("d", "c"), ("b", "a", "e")}, None)


TOO_LARGE = ["31-0", "99-9", "100-0", "tower-301", "tower-1000", "4-" + "9" * 5_000]


@pytest.mark.parametrize("task_id", ["1-0", "04-0", "4", "tower-1", "generated_basic/instance-1", "../4-0", *TOO_LARGE])
def test_worlds_that_there_are_not_are_refused(task_id):
    with pytest.raises(UnknownName, match="4-0"):
        BlocksWorld().task(task_id)


@pytest.mark.parametrize(("task_id", "blocks"), [("2-0", 2), ("30-999999999", 30), ("tower-2", 2), ("tower-300", 300)])
def test_the_smallest_and_the_largest_worlds_exist(task_id, blocks):
    assert len(BlocksWorld().task(task_id).constants["blocks"]) == blocks


def test_wrong_constants_and_missing_data_are_faults(tmp_path):
    task = BlocksWorld().task("3-0")
    broken = task.model_copy(update={"constants": {**task.constants, "blocks": ["a", "b"]}})
    with pytest.raises(Fault, match="3-0"):
        BlocksWorld().open(broken)
    with pytest.raises(Fault, match=r"instances\.tar\.gz"):
        BlocksWorld(tmp_path).tasks("hard")


PROBLEM = """(define (problem p)
(:domain blocksworld-4ops)(:objects B a)
(:init (handempty) (ontable a) ; (clear a)
(on b a) (clear b))
(:goal (and (on a b))))"""


def test_problems_are_read_from_text_file_and_folder(tmp_path):
    problem = read_problem(PROBLEM)
    assert problem.blocks == ("a", "b") and problem.goal == (on("a", "b"),)
    (tmp_path / "set").mkdir()
    (tmp_path / "domain.pddl").write_text("(define (domain blocksworld-4ops))")
    for number in (10, 2):
        (tmp_path / "set" / f"instance-{number}.pddl").write_text(PROBLEM)
    assert list(read_problems(tmp_path)) == ["set/instance-2", "set/instance-10"]
    assert read_problems(tmp_path / "set" / "instance-2.pddl") == {"instance-2": problem}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(on a b)", "(not (on a b))"),
        ("(clear b)", ""),
        ("(ontable a)", "(on a b)"),
        ("(on a b)", "(on a c)"),
        ("(on a b)", "(near a b)"),
        ("(:goal", "(:gaol"),
        ("(on a b))))", "(on a b)"),
    ],
)
def test_what_is_not_a_problem_is_refused_with_its_place(old, new):
    with pytest.raises(Fault, match="here"):
        read_problem(PROBLEM.replace(old, new), "here")


# --- the expert, after errors

VERDICT = {"properties": {"reason": {"type": "string"}, "holds": {"type": "integer", "maximum": 10}}}
COMPLETION = {"properties": {"reason": {"type": "string"}, "completed": {"type": "boolean"}}}


def answer(form: dict[str, Any], state: BlocksState, **view: Any) -> Any:
    """The expert's answer to an operator that sees a state and what is given."""
    shown = {"evidence": Evidence(view=describe_state(state)), **view}
    with use_situation(Situation("node", 1, {}, shown)):
        return answer_request("", form)


def test_a_condition_that_says_nothing_of_the_world_does_not_hold():
    state = random_instance(4, 0).state
    true = format_fact(min(state))
    for text, held in ((true, 3), ("Something that no action brings about (2).", 1)):
        tail = [Predicate(text=true), Predicate(text=text), Predicate(text=true)]
        assert answer(VERDICT, state, tail=tail)["holds"] == held
    assert not answer(COMPLETION, state, subtask=StepSubtask(text="Something else."))["completed"]
    assert answer(COMPLETION, state, subtask=StepSubtask(text=true))["completed"]


@pytest.mark.parametrize(
    "wording",
    [
        "It is not true that {}.",
        "either {} or the hand is empty",
        "{} unless it was moved",
        "I was told: {}, and all is well",
        "{}, and something else",
    ],
)
def test_a_condition_that_claims_more_than_facts_is_not_decided(wording: str):
    state = random_instance(4, 0).state
    true = format_fact(min(state))
    assert parse_facts(wording.format(true))
    assert decide_condition(wording.format(true), state) is None
    assert answer(VERDICT, state, tail=[Predicate(text=wording.format(true))])["holds"] == 0


def test_a_condition_of_facts_is_decided():
    state = random_instance(4, 0).state
    task = BlocksWorld().task("4-0")
    assert decide_condition(format_facts(state).capitalize() + ".", state) is True
    assert decide_condition(format_facts([*state, on("a", "a")]), state) is False
    assert decide_condition(task.condition, state) is decide_condition(task.goal, state) is False
    assert decide_condition(task.condition, BlocksWorld().open(task).state | set(parse_goal(task.goal))) is True


@pytest.mark.long
@pytest.mark.slow
def test_no_rule_certifies_what_the_state_does_not_have():
    command = [sys.executable, str(ROOT / "scripts/certificate_audit.py"), "blocksworld", "--perturbed", "4"]
    audit = subprocess.run([*command, "--tasks", "4-0", "5-1"], capture_output=True, text=True, check=False)
    assert audit.returncode == 0, audit.stderr[:2_000]
    assert "| gold | 2 |" in audit.stdout


def test_a_verdict_counts_no_more_conditions_than_its_form_allows():
    state = random_instance(4, 0).state
    held = [Predicate(text=format_fact(fact)) for fact in state] * 3
    assert answer(VERDICT, state, tail=held)["holds"] == 10 < len(held)


@pytest.mark.slow
@given(states(), st.booleans())
def test_every_target_gets_a_legal_move_also_one_that_holds_or_means_nothing(state, listed):
    moves = [format_move(move) for move in applicable_moves(state)]
    choice = {"enum": moves} if listed else {"type": "string"}
    form = {"properties": {"choice" if listed else "action": choice}}
    for target in (format_fact(min(state)), "Something that no action brings about (1)."):
        chosen = answer(form, state, target=Predicate(text=target))
        assert next(iter(chosen.values())) in moves
