"""An agent that pays, invoked twice in every way in which LangGraph lets a graph invoke another: each payment once."""

import operator
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import pytest
from helpers.processes.prepared_processes import FORK
from helpers.sample_runs.nested_payments import (
    ARGUMENTS,
    FORMS,
    MODES,
    Bank,
    KilledPayments,
    Setting,
    carry_in_child,
    finish,
    open_saver,
    paying_agent,
)
from helpers.servers.postgres_server import Server, running_server
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send

CONFIG: Any = {"configurable": {"thread_id": "t"}}
SETTINGS = [Setting(*one) for one in product(FORMS, MODES, ARGUMENTS)]
FAST = [one for one in SETTINGS if one.form in ("function", "create_agent") and one.mode == "parallel"]
OUTCOMES = ("completed", "killed", "approved", "forked")


class Killed(BaseException):
    """The process ends here: no code of a graph may catch it."""


def named(setting: Any) -> str:
    return "-".join(setting[:3]) if isinstance(setting, Setting) else str(setting)


def complete(setting: Setting, saver: Any, folder: Path) -> None:
    bank = Bank(folder / "bank.sqlite")
    state = setting.build(bank, saver).invoke(setting.given, CONFIG)
    setting.check(bank, setting.answers(state))


def kill(setting: Setting, saver: Any, folder: Path) -> None:
    """End the process before or after each payment in turn; the run is resumed by another one."""
    for number, moment in enumerate(product((0, 1), ("pay", "paid"))):
        (place := folder / str(number)).mkdir()
        seen = []

        def before(now: str, moment: Any = moment, seen: Any = seen) -> None:
            seen.append(now)
            if (seen.count(now) - 1, now) == moment:
                raise Killed

        bank, config = Bank(place / "bank.sqlite", before=before), {"configurable": {"thread_id": str(number)}}
        graph = setting.build(bank, saver)
        with suppress(Killed):
            graph.invoke(setting.given, config)
        state, _ = finish(graph, bank, config)
        setting.check(bank, setting.answers(state))


def approve(setting: Setting, saver: Any, folder: Path) -> None:
    setting, bank = setting._replace(approved=True), Bank(folder / "bank.sqlite")
    graph = setting.build(bank, saver)
    graph.invoke(setting.given, CONFIG)
    assert bank.rows() == []
    state, answered = finish(graph, bank, CONFIG)
    assert answered >= 2
    setting.check(bank, setting.answers(state))


def fork(setting: Setting, saver: Any, folder: Path) -> None:
    """Invoke the outermost graph again from each of its checkpoints."""
    bank = Bank(folder / "bank.sqlite")
    graph = setting.build(bank, saver)
    first = setting.answers(graph.invoke(setting.given, CONFIG))
    for snapshot in list(graph.get_state_history(CONFIG)):
        state = graph.invoke(None, snapshot.config)
        setting.check(bank, first)
        if setting.form != "function" or snapshot.next:
            assert set(setting.answers(state)) <= set(first)


CARRY = {"completed": complete, "killed": kill, "approved": approve, "forked": fork}


def test_without_a_checkpointer_each_payment_is_made(tmp_path: Path) -> None:
    # killed, approved and forked have no meaning here: without a checkpointer nothing can be resumed
    for number, setting in enumerate(SETTINGS):
        (folder := tmp_path / str(number)).mkdir()
        complete(setting, None, folder)


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("setting", FAST, ids=named)
def test_each_payment_is_made_once_in_parallel(setting: Setting, outcome: str, tmp_path: Path) -> None:
    with open_saver("memory", tmp_path) as saver:
        CARRY[outcome](setting, saver, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_each_payment_is_made_once(setting: Setting, kind: str, outcome: str, tmp_path: Path) -> None:
    with open_saver(kind, tmp_path) as saver:
        CARRY[outcome](setting, saver, tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_each_payment_is_made_once_on_a_server(setting: Setting, outcome: str, tmp_path: Path, server: Server) -> None:
    with open_saver(server.url, tmp_path) as saver:
        for thread in ("t", *"0123"):
            saver.delete_thread(thread)
        CARRY[outcome](setting, saver, tmp_path)


# Processes that are killed at random moments.


def kill_at_random(setting: Setting, folder: Path, runs: int) -> tuple[int, int]:
    """Kill and resume runs of a setting; return how many kills there were, and how many questions were put."""
    (whole := folder / "whole").mkdir()
    seconds = carry_in_child(KilledPayments(setting, whole), FORK)
    kills = questions = 0
    for seed in range(runs):
        (place := folder / str(seed)).mkdir()
        run, random = KilledPayments(setting, place), Random(f"{named(setting)}:{seed}")
        for _ in range(random.randint(1, 2)):
            kills += 1
            carry_in_child(run, FORK, random.uniform(0, seconds))
        if not run.count("ended"):
            carry_in_child(run, FORK)
        assert run.count("ended"), f"seed {seed} did not end"
        setting.check(Bank(place / "bank.sqlite"), (place / "answers").read_text().splitlines()[-2:])
        questions += run.count("questions")
    return kills, questions


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_each_payment_is_made_once_though_the_process_is_killed(setting: Setting, tmp_path: Path) -> None:
    kill_at_random(setting, tmp_path, 2)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_of_many_kills_none_doubles_or_loses_a_payment(setting: Setting, tmp_path: Path) -> None:
    kills, questions = kill_at_random(setting, tmp_path, 11)
    print(f"{named(setting)}: {kills} kills, {questions} questions")


class Paid(TypedDict, total=False):
    answers: Annotated[list[str], operator.add]


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_payment_below_several_graphs_that_send_started_is_made_once_by_forks(levels: int, tmp_path: Path) -> None:
    """The `Send` at the top tells branches apart, of which the agent below only has the id of a task."""
    bank = Bank(tmp_path / "bank.sqlite")
    inner = paying_agent(bank)

    def work(state: dict[str, Any]) -> Any:
        return {"answers": [inner.invoke({"messages": [("user", "Pay 5 to ann.")]})["messages"][-1].text]}

    below: Any = work
    for _ in range(levels):
        builder: Any = StateGraph(Paid).add_node("below", below).add_edge(START, "below")
        below = builder.compile()
    builder = StateGraph(Paid).add_node("branch", below)
    builder.add_conditional_edges(START, lambda state: [Send("branch", {"answers": []})] * 3, ["branch"])
    graph = builder.compile(checkpointer=InMemorySaver())
    answers = graph.invoke({}, CONFIG)["answers"]
    assert len(set(answers)) == len(bank.rows()) == 3
    for snapshot in list(graph.get_state_history(CONFIG)):
        edited = graph.update_state(snapshot.config, {"answers": []}) if snapshot.next else snapshot.config
        assert set(graph.invoke(None, edited)["answers"]) <= set(answers)
    assert len(bank.rows()) == 3
