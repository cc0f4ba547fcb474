"""MemGPT's memory functions in its graph: what they change, what the agent sees next, and that all happens once."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.sample_runs.memgpt_runs import run_or_resume
from helpers.worlds.library_world import LibraryBenchmark, ScriptedModel, new_search, run_graph, search_move
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.graphs import hypotheses, memgpt
from certigraph.graphs.hypotheses import explore
from certigraph.nodes.belief_checks import grounded
from certigraph.nodes.memgpt import MAX_MEMORY_CALLS, manage, use_memory
from certigraph.state.endings import Fault
from certigraph.state.memgpt import MemoryTurn

FINISH = {**search_move("Ada"), "tool": "finish"}


def function(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"thought": "", "tool": name, "text": text, **more}


KEPT_AND_FOUND = (function("archival_memory_insert", "RIVER"), function("archival_memory_search", "river"))


def moves(*given: dict[str, Any]) -> Callable[[str, int], dict[str, Any]]:
    """These moves one after another, then the answer."""
    return lambda prompt, times: given[times] if times < len(given) else FINISH


def acted(
    *given: dict[str, Any], world: LibraryBenchmark | None = None, **graph: Any
) -> tuple[dict[str, Any], ScriptedModel]:
    scripted_model = ScriptedModel(tool=moves(*given), answer={"answer": "Ada"}, summary={"summary": "SUMMARY"})
    return run_graph(memgpt.build(**graph), scripted_model, world), scripted_model


def answers(state: dict[str, Any]) -> list[MemoryTurn]:
    return list(state["memory_turns"])


def test_what_is_appended_is_in_every_later_prompt_and_no_round_is_spent() -> None:
    state, scripted_model = acted(search_move("Osk"), function("core_memory_append", "CORE"), search_move("Ren"))
    assert ["CORE" in prompt for prompt in scripted_model.prompts("tool")] == [False, False, True, True]
    assert state["belief"].notes == ("CORE",)
    assert [turn.action for turn in state["turns"]] == ["search[Osk]", "search[Ren]", "finish[Ada]"]
    assert len(state["rounds"]) == 2  # the gate sees actions in the world alone
    assert len(state["history"]) == 3


def test_replacing_what_is_not_there_is_an_error_that_the_agent_reads() -> None:
    state, scripted_model = acted(
        function("core_memory_append", "CORE"), function("core_memory_replace", "ELSE", new="x")
    )
    [_, refused] = answers(state)
    assert (refused.accepted, "'ELSE'" in refused.observation) == (False, True)
    assert refused.observation in scripted_model.prompts("tool")[2]
    assert state["belief"].notes == ("CORE",)


def test_an_entry_is_kept_once_and_core_memory_within_its_size() -> None:
    entry = function("archival_memory_insert", "The Ren rises near Tor.")
    core = [function("core_memory_append", letter * size) for letter, size in (("x", 90), ("y", 20))]
    state, _ = acted(entry, entry, *core, use_memory=use_memory(core=100))
    assert state["archive"] == ["The Ren rises near Tor."]
    assert [turn.accepted for turn in answers(state)] == [True, True, True, False]
    assert state["belief"].notes == ("x" * 90,)


def test_a_search_of_archival_memory_finds_what_was_inserted_and_nothing_else_shows_it() -> None:
    state, scripted_model = acted(
        function("archival_memory_insert", "The Ren rises near Tor."),
        function("archival_memory_insert", "The library opens at nine."),
        function("archival_memory_search", "where does the Ren rise?", page=1),
    )
    assert state["archive"] == ["The Ren rises near Tor.", "The library opens at nine."]
    first, *_ = answers(state)[2].observation.splitlines()[1:]
    assert "rises near Tor" in first
    assert "rises near Tor" not in scripted_model.prompts("tool")[0]
    assert first in scripted_model.prompts("tool")[3]


def test_the_conversation_is_searched_beyond_what_is_still_shown() -> None:
    """The queue of turns is flushed; what the first round found is then in no prompt but that after the search."""
    found = [*(search_move(f"q{n} r{n}") for n in range(10)), function("conversation_search", "q0", page=1)]
    state, scripted_model = acted(*found, world=LibraryBenchmark(words=60), decide=manage(queue=4_000))
    before, after = scripted_model.prompts("tool")[10:12]
    assert state["belief"].reorganised >= 1
    assert "about q0 r0 one" not in before
    assert "about q0 r0 one" in after
    assert "round 1" in answers(state)[0].observation


def test_the_answer_is_handed_in_without_a_summary_that_nobody_would_read() -> None:
    """Before the last action the queue is full, as a further search shows, which has it summarised."""
    found = [search_move(f"q{n} r{n}") for n in range(5)]
    for last, summaries in ((), 0), ((search_move("q5 r5"),), 1):
        _, scripted_model = acted(*found, *last, world=LibraryBenchmark(words=60), decide=manage(queue=4_000))
        assert len(scripted_model.prompts("summary")) == summaries


def test_a_search_of_the_conversation_goes_by_what_was_found_and_not_by_the_words_of_the_action() -> None:
    calls = [search_move("q0 r0"), search_move("q1 r1"), function("conversation_search", "q1 r1", page=1)]
    state, _ = acted(*calls)
    lines = answers(state)[0].observation.splitlines()[1:]
    assert lines
    assert all("q1 r1" in line for line in lines)


def test_memory_calls_in_a_row_are_bounded_and_then_only_tools_are_offered() -> None:
    """A model that would edit its memory forever is left no other choice than a tool of the world."""
    offered = []

    def responder(prompt: str, schema: Any) -> dict[str, Any]:
        tools = schema["properties"].get("tool", {}).get("enum", ())
        if not tools:
            return {"answer": "Ada"}
        offered.append(tools)
        endless = function("archival_memory_insert", f"entry {len(offered)}")
        return endless if "archival_memory_insert" in tools else search_move(f"q{len(offered)}")

    world = LibraryBenchmark(rounds=2)
    context = Context(benchmark=world, chat=ScriptedChat(responder=responder))
    state = memgpt.build().invoke({"task": world.task("only")}, context=context)
    assert [len(tools) for tools in offered] == ([7] * MAX_MEMORY_CALLS + [2]) * 2
    assert [turn.after for turn in answers(state)] == [0] * MAX_MEMORY_CALLS + [1] * MAX_MEMORY_CALLS


def test_the_bound_is_an_option_and_none_offers_no_function() -> None:
    _, scripted_model = acted(search_move("Osk"), decide=manage(calls=0))
    assert not any(fields & {"new", "page"} for fields, _ in scripted_model.requests)


@pytest.mark.parametrize("memory", ["lobotomized", "structured", "freeform"])
def test_another_memory_offers_no_function_in_any_round(memory: str):
    scripted_model = ScriptedModel(tool=new_search, answer={"answer": "Ada"}, text="Ada mapped it")
    state = run_graph(memgpt.build(memory=memory), scripted_model, LibraryBenchmark(rounds=3))
    assert {fields for fields, _ in scripted_model.requests if "tool" in fields} == {
        frozenset({"thought", "tool", "text"})
    }
    assert "archival_memory" not in "".join(scripted_model.prompts("tool"))
    assert state.get("archive", []) == []


def test_a_wrapper_of_the_own_memory_keeps_the_functions() -> None:
    state, _ = acted(function("core_memory_append", "CORE"), search_move("Osk"), memory=grounded("native"))
    assert state["belief"].notes == ("CORE",)


def test_a_model_with_a_small_window_has_the_same_functions() -> None:
    strong, small = (
        ScriptedModel(tool=moves(function("core_memory_append", "CORE"), search_move("Osk")), answer={"answer": "Ada"})
        for _ in range(2)
    )
    run_graph(memgpt.build(), strong, LibraryBenchmark(rounds=2))
    state = run_graph(memgpt.build(), small, LibraryBenchmark(rounds=2), window=4_096)
    assert [fields for fields, _ in small.requests] == [fields for fields, _ in strong.requests]
    assert state["belief"].notes == ("CORE",)


def test_the_final_answer_sees_what_the_memory_gave() -> None:
    scripted_model = ScriptedModel(tool=moves(*KEPT_AND_FOUND, search_move("Osk")), answer={"answer": "Ada"})
    run_graph(memgpt.build(), scripted_model, LibraryBenchmark(rounds=1))
    assert "- RIVER" in scripted_model.prompts("answer")[0]


def test_a_new_episode_of_a_thread_begins_with_an_empty_memory() -> None:
    graph, world = memgpt.build(checkpointer=InMemorySaver()), LibraryBenchmark()
    config: Any = {"configurable": {"thread_id": "one"}}
    given = moves(function("archival_memory_insert", "RIVER"), function("core_memory_append", "CORE"))
    for expected in (["RIVER"], []):
        scripted_model = ScriptedModel(tool=given if expected else moves())
        context = Context(benchmark=world, chat=ScriptedChat(responder=scripted_model))
        state = graph.invoke({"task": world.task("only")}, config, context=context)
        assert (state["archive"], bool(state["belief"].notes), bool(answers(state))) == (
            expected, bool(expected), bool(expected))  # fmt: skip


def test_an_own_operator_takes_the_place_of_the_functions() -> None:
    async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
        return {"belief": state["belief"], "archive": [], "answer": {"text": "FORGOTTEN"}}

    state, scripted_model = acted(function("archival_memory_insert", "RIVER"), use_memory=forgetful)
    assert state["archive"] == []
    assert "FORGOTTEN" in scripted_model.prompts("tool")[1]


def test_parallel_searches_have_memories_of_their_own() -> None:
    kept = lambda prompt: "up" if "up the river" in prompt else "down"  # noqa: E731

    def tool(prompt: str, times: int) -> dict[str, Any]:
        inserted = f"- {kept(prompt)} ENTRY" in prompt
        if inserted:
            return FINISH
        names = ("archival_memory_insert", f"{kept(prompt)} ENTRY"), ("archival_memory_search", "ENTRY")
        return function(*names["Kept" in prompt])

    scripted_model = ScriptedModel(tool=tool, hypotheses={"hypotheses": ["up the river", "down the river"]})
    graph = hypotheses.build(explore=explore(harness="memgpt", memory="native"))
    store = InMemoryStore()
    graph.store = store
    state = run_graph(graph, scripted_model)
    assert [branch.answer for branch in state["branches"]] == ["Ada", "Ada"]
    spaces = {item.namespace: item.value["text"] for item in store.search((), limit=10)}
    assert sorted(spaces.values()) == ["down ENTRY", "up ENTRY"]
    assert len(spaces) == 2


# A store of the user.


def entries(store: BaseStore) -> list[tuple[tuple[str, ...], str]]:
    return [(item.namespace, item.value["text"]) for item in store.search(("memory",), limit=100)]


def test_a_store_gets_the_entries_in_a_namespace_of_thread_and_episode() -> None:
    store, world = InMemoryStore(), LibraryBenchmark()
    graph = memgpt.build(checkpointer=InMemorySaver(), store=store)
    for thread in ("a.b", "c"):
        scripted_model = ScriptedModel(
            tool=moves(function("archival_memory_insert", f"of {thread}"), search_move("Osk"))
        )
        context = Context(benchmark=world, chat=ScriptedChat(responder=scripted_model))
        graph.invoke({"task": world.task("only")}, {"configurable": {"thread_id": thread}}, context=context)
    assert sorted((space[1], text) for space, text in entries(store)) == [("a%2Eb", "of a.b"), ("c", "of c")]


def test_nothing_of_another_run_on_the_same_store_is_found() -> None:
    store = InMemoryStore()
    graph: Any = memgpt.build(store=store)
    run_graph(graph, ScriptedModel(tool=moves(function("archival_memory_insert", "RIVER one"))))
    state = run_graph(graph, ScriptedModel(tool=moves(function("archival_memory_search", "river"))))
    assert "RIVER" not in answers(state)[0].observation


def test_an_asynchronous_store_is_used_too(tmp_path: Path):
    world, scripted_model = LibraryBenchmark(), ScriptedModel(tool=moves(*KEPT_AND_FOUND))
    context = Context(benchmark=world, chat=ScriptedChat(responder=scripted_model))

    async def stored() -> tuple[dict[str, Any], list[Any]]:
        async with AsyncSqliteStore.from_conn_string(str(tmp_path / "store.sqlite")) as store:
            await store.setup()
            state = await memgpt.build(store=store).ainvoke({"task": world.task("only")}, context=context)
            return state, [item.value["text"] for item in await store.asearch(("memory",))]

    state, kept = asyncio.run(stored())
    assert (kept, answers(state)[1].observation.endswith("- RIVER")) == (["RIVER"], True)


class Backwards(InMemoryStore):
    """A store with an index of its own, which ranks the shortest entry first."""

    def search(self, namespace: Any, /, *, query: str | None = None, **rest: Any) -> Any:
        items = super().search(namespace, query=None, **rest)
        if query:
            items.sort(key=lambda item: len(item.value["text"]))
            for item in items:
                item.score = 1.0
        return items


def test_the_index_of_a_store_ranks_the_results() -> None:
    inserts = [function("archival_memory_insert", text) for text in ("a river that is long", "hill", "the dale")]
    state, _ = acted(*inserts, function("archival_memory_search", "river"), store=Backwards())
    assert answers(state)[3].observation.splitlines()[1:] == ["- hill", "- the dale", "- a river that is long"]


# Crashes: the process dies after the store was written and before the state was saved.


class Crash(BaseException):
    """Nothing catches it, as nothing catches the end of the process."""


class Breaking(InMemoryStore):
    """A store whose first write succeeds and is the last thing that the process does."""

    broken = False

    def put(self, *args: Any, **kwargs: Any) -> None:
        super().put(*args, **kwargs)
        if not self.broken:
            self.broken = True
            raise Crash


def crashed(given: Callable[[str, int], Any], crash: type[BaseException], store: BaseStore | None) -> dict[str, Any]:
    """Run until the process dies; then go on from the last checkpoint, as another process would."""
    graph, world = memgpt.build(checkpointer=InMemorySaver(), store=store), LibraryBenchmark()
    context = Context(benchmark=world, chat=ScriptedChat(responder=ScriptedModel(tool=given, answer={"answer": "Ada"})))
    config: Any = {"configurable": {"thread_id": "one"}}
    with pytest.raises(crash):
        graph.invoke({"task": world.task("only")}, config, context=context)
    return dict(graph.invoke(None, config, context=context))


def test_an_entry_that_was_written_before_a_crash_is_not_written_again() -> None:
    store = Breaking()
    given = [*KEPT_AND_FOUND, function("core_memory_append", "CORE")]
    state = crashed(moves(*given), Crash, store)
    assert [text for _, text in entries(store)] == state["archive"] == ["RIVER"]
    whole, _ = acted(*given, store=InMemoryStore())
    assert (answers(state), state["belief"], state["archive"]) == (answers(whole), whole["belief"], whole["archive"])


def test_a_memory_call_before_a_model_failed_is_not_repeated() -> None:
    given = [
        function("archival_memory_insert", "RIVER"),
        function("core_memory_append", "CORE"),
        None,
        function("archival_memory_search", "river"),
    ]

    def failing(prompt: str, times: int) -> Any:
        if times < len(given) and given[times] is None:
            raise Fault("model", "the endpoint is gone")
        return moves(*given)(prompt, times)  # type: ignore[arg-type]

    state = crashed(failing, Fault, None)
    assert (state["archive"], state["belief"].notes) == (["RIVER"], ("CORE",))
    assert ["RIVER" in turn.action for turn in answers(state)] == [True, False, False]
    assert answers(state)[-1].observation.endswith("- RIVER")


def test_a_resumed_run_keeps_its_memory_although_the_store_is_lost() -> None:
    saver = InMemorySaver()
    world, scripted_model = LibraryBenchmark(), ScriptedModel(tool=moves(*KEPT_AND_FOUND))
    context = Context(benchmark=world, chat=ScriptedChat(responder=scripted_model))
    config: Any = {"configurable": {"thread_id": "one"}}
    first = memgpt.build(checkpointer=saver, store=InMemoryStore())
    first.invoke({"task": world.task("only")}, config, context=context, interrupt_after=["use_memory"])
    state = memgpt.build(checkpointer=saver, store=InMemoryStore()).invoke(None, config, context=context)
    assert "- RIVER" in answers(state)[1].observation


def test_a_fork_of_a_thread_has_the_memory_of_its_checkpoint() -> None:
    graph, world = memgpt.build(checkpointer=InMemorySaver(), store=InMemoryStore()), LibraryBenchmark()
    context = Context(benchmark=world, chat=ScriptedChat(responder=ScriptedModel(tool=moves(*KEPT_AND_FOUND))))
    config: Any = {"configurable": {"thread_id": "one"}}
    graph.invoke({"task": world.task("only")}, config, context=context)
    [start] = [s for s in graph.get_state_history(config) if s.next == ("decide",) and not s.values["memory_turns"]]
    searching = ScriptedModel(tool=moves(function("archival_memory_search", "river")))
    state = graph.invoke(None, start.config, context=Context(benchmark=world, chat=ScriptedChat(responder=searching)))
    assert "RIVER" not in answers(state)[0].observation
    assert state["archive"] == []


CHILD = """
import sys
from pathlib import Path
from helpers.sample_runs.memgpt_runs import run_or_resume
run_or_resume(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("deaths", [["put"], *([str(number)] for number in range(1, 8)), ["put", "2", "put", "5"]])
def test_a_killed_process_continues_with_exactly_its_memory(deaths: list[str], tmp_path: Path) -> None:
    """The process dies after a write to the store or before a move, and another one goes on."""
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    for death in deaths:
        command = [sys.executable, "-c", CHILD, str(tmp_path / "killed"), death]
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    killed, whole = (run_or_resume(tmp_path / name) for name in ("killed", "whole"))
    for key in ("archive", "belief", "memory_turns", "turns"):
        assert killed[key] == whole[key]
    assert sorted(killed["kept"]) == sorted(whole["archive"])
    assert len(whole["memory_turns"]) == 6
