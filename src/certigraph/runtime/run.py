"""Runs: start, resume, complete and delete.

`run` and `resume` block; `arun` and `aresume` are their coroutines. `complete_run` starts or resumes a run, whichever
its folder needs. `delete` removes everything that certigraph saved of a run.
"""

import asyncio
import datetime
import json
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import JsonValue

from certigraph.adapters.benchmarks import default_benchmark, load_benchmark, name_task
from certigraph.adapters.faults import Faults
from certigraph.adapters.files import replace_file
from certigraph.adapters.json_lines import read_bounded_lines
from certigraph.adapters.models.chat_models import LIVE_PREFIX, check_model_name
from certigraph.adapters.processes import is_loop_running, own_loop, wait_for
from certigraph.adapters.protocols import Benchmark, Budget, Context, Limits, complete_benchmark
from certigraph.adapters.redaction import redact_record
from certigraph.adapters.tools.world import Tools, check_script
from certigraph.adapters.trajectories import TRAJECTORY_FILE, read_trajectory
from certigraph.graphs.agent import AgentGraph
from certigraph.graphs.assembly import method_of, operators_of, running_operators_of
from certigraph.graphs.operator_names import name_generic_operators
from certigraph.runtime.agent_runs import (
    chat_model_of,
    check_same_agent,
    is_unnamed_agent,
    name_agent,
    prepare_agent_run,
    prepare_outside_run,
    world_of,
)
from certigraph.runtime.approvals import check_answered
from certigraph.runtime.driver import drive_run
from certigraph.runtime.files import (
    REPORT_FILE,
    SETTINGS_FILE,
    check_no_links,
    check_output_folder,
    find_manifest,
    has_header,
    is_run_file,
    read_last_footer,
    read_run_id,
    slug_of,
)
from certigraph.runtime.graph_sources import AnyGraph, own_operators_of, slots_of
from certigraph.runtime.outside_runs import OWN_MODEL, check_no_schema, is_outside_agent
from certigraph.runtime.recorder import Listener, Recorder, lock_trajectory
from certigraph.runtime.registry import (
    GRAPHS,
    build_graph,
    check_priced,
    check_retrieval,
    check_same_rerankers,
    check_takes_answers,
    current_versions,
    load_settings,
    rebuild_graph,
    reranker_versions,
    save_settings,
    shareable_context,
)
from certigraph.runtime.result import OnError, Result, check_on_error, report_failure
from certigraph.runtime.storage import check_checkpoint_server, default_checkpoints, delete_thread, drop_checkpoints
from certigraph.state.endings import Fault, UnknownName, is_error, is_resumable
from certigraph.state.records import Task
from certigraph.state.trajectory import SCHEMA_VERSION, Header

T = TypeVar("T")


def run(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "",
    task: str | Task | None = None,
    *,
    context: Context | dict[str, Any] | None = None,
    out: Path | str = "runs",
    keep_prompts: bool = False,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Run a graph on a task to its ending and save the trajectory.

    Args:
        graph: the name of a graph, or a compiled graph: `sdp.build(validate=always_pass)`. A user's own graph is named
            as `mypackage.graphs:build`; `runtime.graph_sources` says how its ending and score are found.
        benchmark: the name of a benchmark, `mypackage.worlds:MyBenchmark` included, or a benchmark object; by default
            that of the context, else `benchmarks.DEFAULT_BENCHMARK`.
        task: a task or its id; by default the first task of the benchmark. For an agent (`certigraph.agent`,
            LangChain's `create_agent`, deepagents), which has tools in place of a benchmark, the request: "Refund order
            17."
        context: model, budget, limits and data, or a dict of them; all have defaults. Those of an agent are its
            own; a budget or limits given here replace the agent's whole.
        out: the folder in which the folder of the run is created.
        keep_prompts: whether the run, also once it is resumed, writes every request to a model and its reply to
            `prompts.jsonl` in its folder, with secrets masked.
        listener: called with every trajectory line as it is written.
        on_error: what happens when the ending is `error:<boundary>`: "warn" issues a `RunFailedWarning`, "raise" raises
            `RunFailed`, "ignore" does neither. `result.raise_for_error()` raises later.

    Returns:
        The result. Every ending is recorded; a spent budget (`limit:<kind>`) is not an error.

    Raises:
        UnknownName: a graph, benchmark, task or model is unknown; no run is started.
        TypeError: an argument is of another type; no run is started.
        pydantic.ValidationError: the context has an unknown field, or a value that is not allowed; no run is started.
        Fault: a server, data or a price is missing; no run is started.
        RunFailed: the run failed and `on_error` is "raise".
    """
    check_on_error(on_error)
    run_blocking(check_checkpoint_server())
    options: dict[str, Any] = {"out": out, "keep_prompts": keep_prompts, "listener": listener}
    coroutine = arun(graph, benchmark, task, context=context, **options, on_error="ignore")
    return report_failure(run_blocking(coroutine), on_error)


async def arun(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "",
    task: str | Task | None = None,
    *,
    context: Context | dict[str, Any] | None = None,
    out: Path | str = "runs",
    name: str = "",
    keep_prompts: bool = False,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Run a graph as `run` does, without blocking; `name` is the name of the run's folder, by default a new one."""
    check_on_error(on_error)
    context = Context.model_validate(context or {})
    if benchmark is None:
        raise TypeError("benchmark=None: give the name of a benchmark, or a benchmark object, or leave it out")
    compiled = build_graph(graph) if isinstance(graph, str) else _compile(graph)
    if isinstance(compiled, AgentGraph):
        compiled, benchmark, task, context = prepare_agent_run(compiled, benchmark, task, context)
    elif isinstance(task, str) and not benchmark and not context.benchmark and is_outside_agent(compiled):
        compiled, benchmark, task, context = prepare_outside_run(compiled, task, context)
    choose = _choose_task if benchmark or context.benchmark else _choose_task_by_default
    named = benchmark or context.benchmark or default_benchmark()
    if isinstance(named, type):
        raise TypeError(f"the benchmark is the class {named.__name__}: give an instance, {named.__name__}()")
    live = load_benchmark(named, context.data) if isinstance(named, str) else complete_benchmark(named)
    defaults = {"benchmark": live, "limits": context.limits or live.limits}
    context = context.model_copy(update={**defaults, "checkpoints": context.checkpoints or default_checkpoints()})
    if isinstance(live, Tools) and is_outside_agent(compiled):
        check_no_schema(compiled, compiled.builder.context_schema)
    chosen = redact_record(name_task(choose(task, live), live))
    named_models = (context.model, *context.roles.values()) if context.chat is None else ()
    for model in named_models:
        check_model_name(model)
    if slots_of(compiled):  # other graphs may have a model of their own
        check_script(live, named_models)
    check_priced(named_models, context.budget)
    Faults.read(context.faults)
    operators = operators_of(compiled)
    check_takes_answers(compiled.name, live)
    check_retrieval(operators, live)
    check_output_folder(out)
    folder = Path(out) / (name or create_run_name(compiled.name, chosen))
    folder.mkdir(parents=True, exist_ok=bool(name))
    save_settings(folder, context)
    header = Header(
        run_id=folder.name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        graph=compiled.name,
        operators=running_operators_of(compiled, chosen, live),
        task=chosen,
        context={**shareable_context(context), **({"model": OWN_MODEL} if is_outside_agent(compiled) else {})},
        versions={**current_versions(), **reranker_versions(operators)},
        method=method_of(compiled) if compiled.name not in GRAPHS else "",
        own_operators=own_operators_of(compiled),
    )
    with Recorder(folder / TRAJECTORY_FILE, listener, keep_prompts=keep_prompts) as recorder:
        recorder.write(header)
        await drive_run(compiled, chosen, context, folder, recorder)
    return report_failure(Result(folder, recorder.trajectory), on_error)


def create_run_name(graph: str, task: Task) -> str:
    """Create a name for the folder of a run. It begins with the present time and ends at random."""
    description = slug_of(f"{graph}-{task.benchmark}-{task.id}", 60)
    return f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{description}-{uuid.uuid4().hex[:8]}"


def _choose_task(task: str | Task | None, benchmark: Benchmark) -> Task:
    """Return `task` if it is one, else the benchmark's task with this id; without an id, the benchmark's first task."""
    if isinstance(task, Task):
        return task
    named = isinstance(task, str) and task
    first = () if named else benchmark.tasks()[:1]
    if not named and not first:
        fix = "give Tools(..., cases=[...])" if isinstance(benchmark, Tools) else "let its method `tasks` return some"
        raise UnknownName(f"benchmark {benchmark.name} has no tasks: {fix}")
    if not isinstance(task, str | None):
        raise TypeError(f"task={task!r:.100}: give the id as text, such as {first[0].id!r}")
    chosen: object = benchmark.task(task) if task else first[0]
    if not isinstance(chosen, Task):
        message = f"benchmark {benchmark.name} has the task {chosen!r:.100}"
        raise UnknownName(f"{message}: let its methods return certigraph.Task(benchmark=..., id=..., goal=...)")
    return chosen


def _choose_task_by_default(task: str | Task | None, benchmark: Benchmark) -> Task:
    try:
        return _choose_task(task, benchmark)
    except UnknownName as unknown:
        fix = "name one, as in run('sdp', BENCHMARK, ...); an agent of yours takes a request as its task"
        raise UnknownName(f"{unknown}; no benchmark was named: {fix}") from None


def _compile(graph: AnyGraph | StateGraph[Any, Any, Any, Any]) -> AnyGraph:
    if not isinstance(graph, StateGraph | CompiledStateGraph):
        raise TypeError(f"graph={graph!r:.100}: give the name of a graph, such as 'sdp', or a compiled graph")
    return graph.compile() if isinstance(graph, StateGraph) else graph


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result, also where an event loop runs already. Ctrl-C cancels it."""
    if is_loop_running():  # as in a notebook
        return wait_for(coroutine)
    with own_loop():
        return asyncio.run(coroutine)


def resume(
    folder: Path | str,
    *,
    answer: JsonValue = None,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    graph: AnyGraph | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Resume a run that was killed, interrupted, or stopped by a limit or an error, from its last checkpoint.

    Args:
        folder: the folder of the run.
        answer: the answer to the question for which the run waits (`result.questions`), in the form that the graph
            expects: `{"type": "approve"}` or one of LangChain's other decisions for a call that needs approval. For
            several questions, a list of answers.
        budget: a larger budget; by default the budget that the run was started with.
        limits: larger limits; by default the limits that the run was started with.
        benchmark: the benchmark object, for a run that was started with one.
        graph: the compiled graph, for a run that was started with a compiled graph of the user's own.
        chat: the chat model object, for a run that was started with one.
        listener: called with every trajectory line, including those written before the run stopped.
        on_error: what happens when the ending is `error:<boundary>`: "warn", "raise" or "ignore", as in `run`.

    Raises:
        AnswerMissing: the run waits for an answer, and none was given; the message has the question.
        Fault: the folder holds no run, the run has reached a final ending, or an earlier version started it; or the
            answer cannot be used, and the run waits for another one.
        RunFailed: the run failed and `on_error` is "raise".
    """
    check_on_error(on_error)
    changes: dict[str, Any] = {
        "answer": answer,
        "budget": budget,
        "limits": limits,
        "benchmark": benchmark,
        "graph": graph,
        "chat": chat,
    }
    result = run_blocking(aresume(folder, **changes, listener=listener, on_error="ignore"))
    return report_failure(result, on_error)


async def aresume(
    folder: Path | str,
    *,
    answer: JsonValue = None,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    graph: AnyGraph | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
    on_error: OnError = "warn",
) -> Result:
    """Resume a run as `resume` does, without blocking."""
    check_on_error(on_error)
    folder = Path(folder)
    trajectory = read_trajectory(folder)
    header, footer = trajectory.header, trajectory.footer
    if footer and not is_resumable(footer.ending):
        report = folder / REPORT_FILE
        shown = f"its report: {report}" if report.is_file() else f"certigraph report {folder} writes its report"
        ended = f"run {header.run_id} has ended: {footer.ending}"
        raise Fault("data", f"{ended}; start a new one with `certigraph run`; {shown}")
    if header.schema_version != SCHEMA_VERSION:
        reason = f"run {header.run_id} has trajectory schema {header.schema_version}, whose checkpoints this version"
        raise Fault(
            "data", f"{reason} cannot restore: it can be read and reported; start it again with `certigraph run`"
        )
    if answer is None:
        check_answered(trajectory.questions, folder, in_python=is_unnamed_agent(header))
    operators = name_generic_operators(header.operators, header.task.benchmark)
    check_same_rerankers(operators, header.versions)
    if graph is None and is_unnamed_agent(header):
        fix = f"certigraph.resume({str(folder)!r}, graph=...)"
        raise UnknownName(f"run {header.run_id} was started with an agent object: pass it in Python, {fix}")
    compiled = name_agent(graph or _load_named(header, "graph", lambda: rebuild_graph(header.graph, operators)))
    check_same_agent(compiled, header)
    context = _attach_chat_model(load_settings(folder), header, chat or chat_model_of(compiled, header))
    load = partial(load_benchmark, header.task.benchmark, context.data)
    live = complete_benchmark(benchmark or world_of(compiled, header) or _load_named(header, "benchmark", load))
    changes = {"budget": budget or context.budget, "limits": limits or context.limits, "benchmark": live}
    context = context.model_copy(update=changes)
    if isinstance(compiled, AgentGraph):
        context = context.model_copy(update={"chats": compiled.agent_context.chats})
    with Recorder(folder / TRAJECTORY_FILE, listener) as recorder:
        if listener:
            listener(header)
            for event in trajectory.events:
                listener(event)
        await drive_run(compiled, header.task, context, folder, recorder, resuming=True, answer=answer)
    return report_failure(Result(folder, recorder.trajectory), on_error)


def _load_named(header: Header, kind: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except UnknownName as unknown:
        fix = f"if run {header.run_id} was started with an object, pass it: certigraph.resume(..., {kind}=...)"
        raise UnknownName(f"{unknown}; {fix}") from unknown


def _attach_chat_model(context: Context, header: Header, chat: BaseChatModel | None) -> Context:
    model = str(header.context.get("model"))
    if model.startswith(LIVE_PREFIX) and chat is None:
        fix = "pass the model: certigraph.resume(..., chat=...)"
        raise Fault("data", f"run {header.run_id} was started with the chat model object {model}: {fix}")
    return context.model_copy(update={"chat": chat})


# Completing a run: start it, resume it, or return it as it is.

RESTART_ENDINGS = ("error:environment", "error:operator")
"""Endings after which a retry has to start the run again, because its world or state may be corrupted."""


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run, that is, a trajectory whose header was written completely."""
    path = folder / TRAJECTORY_FILE
    return path.is_file() and has_header(path)


def needs_resume(folder: Path) -> bool:
    """Whether a run was cut off or ended in an error, so that there is something left to do for it."""
    footer = read_last_footer(folder / TRAJECTORY_FILE)
    return footer is None or is_error(footer.ending)


def needs_restart(folder: Path) -> bool:
    """Whether a run ended in such a way that a retry has to start it again instead of resuming it."""
    footer = read_last_footer(folder / TRAJECTORY_FILE)
    return footer is not None and footer.ending in RESTART_ENDINGS


async def complete_run(
    folder: Path,
    graph: AnyGraph,
    live: Benchmark,
    task: str,
    context: Context,
    *,
    keep_prompts: bool = False,
    listener: Listener | None = None,
) -> Result:
    """Bring the run of a folder to its ending: start it, resume it, or return it if it is finished.

    A run that was cut off or ended `error:<boundary>` is resumed from its last checkpoint, so that it keeps its
    certificates. A run with any other ending, a spent budget included, is returned unchanged, and so is one that waits
    for an answer. Where the user's own tools have a `reset`, one run is made at a time, and a run that was cut off
    starts again, because other cases may have changed what it left.

    Args:
        folder: the folder of the run, which need not exist; its name is the run id.
        graph: the compiled graph.
        live: the benchmark.
        task: the id of the task.
        context: the context, used if the run has to be started.
        keep_prompts: as in `run`, used if the run has to be started.
        listener: called with every trajectory line.

    Raises:
        Fault: another process is writing the run, or it cannot be resumed.
    """
    async with _take_turn(live):
        result = await _bring_to_ending(folder, graph, live, task, context, keep_prompts, listener)
    await drop_checkpoints(folder, result.ending, load_settings(folder))
    return result


async def _bring_to_ending(
    folder: Path,
    graph: AnyGraph,
    live: Benchmark,
    task: str,
    context: Context,
    keep_prompts: bool,
    listener: Listener | None,
) -> Result:
    if has_run(folder) and needs_resume(folder) and isinstance(live, Tools) and live.reset:
        await _clear_run(folder)
    if not has_run(folder):
        chosen = live.task(task)
        return await arun(
            graph,
            live,
            chosen,
            context=context,
            out=folder.parent,
            name=folder.name,
            keep_prompts=keep_prompts,
            listener=listener,
            on_error="ignore",
        )
    result = Result(folder)
    if not needs_resume(folder) or result.questions:
        return result
    own = None if graph.name in GRAPHS else graph
    return await aresume(folder, benchmark=live, graph=own, chat=context.chat, listener=listener, on_error="ignore")


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Tools, asyncio.Lock]] = WeakKeyDictionary()
"""By event loop, a lock for each benchmark whose runs are made one at a time."""


@asynccontextmanager
async def _take_turn(live: Benchmark) -> AsyncIterator[None]:
    """Wait until no other run of this process uses what the `reset` of the user's own tools brings to its beginning."""
    if not (isinstance(live, Tools) and live.reset):
        yield
        return
    locks = _TURNS.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    async with locks.setdefault(live, asyncio.Lock()):
        yield


async def _clear_run(folder: Path) -> None:
    with lock_trajectory(folder / TRAJECTORY_FILE):
        await delete_thread(folder, _load_run_context(folder))
        _delete_files(folder)


# Deleting a run: its files, its rows on a Postgres server and its lines in journals.


def delete(folder: Path | str) -> list[str]:
    """Delete a run: the files that certigraph wrote, and the folder unless it holds other files.

    Rows on a Postgres server are deleted first: if the server cannot be reached, nothing is deleted.

    Returns:
        One line for each thing that is left and may hold data of the run: other files in the folder, memories and
            caches
        that several runs share, logs, tables.

    Raises:
        Fault: ("data") the path is a link or not the folder of a run, another process is writing the run, or its
            Postgres server cannot be reached.
    """
    folder = resolve_run_folder(folder)
    with lock_trajectory(folder / TRAJECTORY_FILE):
        context = _load_run_context(folder)
        related = list(_list_related_data(folder, context))
        run_blocking(delete_thread(folder, context))
        for journal in find_journals(folder):
            _remove_journal_lines(journal, folder.name)
        left = _delete_files(folder)
    return [*left, *related]


def resolve_run_folder(folder: Path | str) -> Path:
    """Return the absolute path of a run's folder, after a check that it is one.

    The trajectory in the folder of a run has a header with the folder's name as run id.

    Raises:
        Fault: ("data") the path is a link, or not the folder of a run.
    """
    path = Path(folder)
    check_no_links(path, path / TRAJECTORY_FILE)
    resolved = path.resolve()
    run_id = read_run_id(resolved / TRAJECTORY_FILE)
    if run_id is None:
        message = f"{path} holds no run: give a folder whose {TRAJECTORY_FILE} begins with the header of a run"
        if any(resolved.glob(f"*/{TRAJECTORY_FILE}")):
            message += f"; all runs in this folder: certigraph delete {path}/*/"
        raise Fault("data", message)
    if run_id != resolved.name:
        fix = "rename the folder to that, or remove it with the tools of your system"
        raise Fault("data", f"{path} is not the folder of the run in it, which is named {run_id!r:.100}: {fix}")
    return resolved


def _delete_files(folder: Path) -> list[str]:
    # The trajectory goes last, so that a deletion that was cut off can be repeated.
    for path in sorted(folder.iterdir(), key=lambda path: path.name == TRAJECTORY_FILE):
        if is_run_file(path):
            path.unlink()
    if left := sorted(path.name for path in folder.iterdir()):
        return [f"{folder} was not removed: it holds files that certigraph did not write: {', '.join(left)}"]
    folder.rmdir()
    return []


def _load_run_context(folder: Path) -> Context:
    # A process that died before it saved the settings has written nothing to a server, so that the default will do.
    return load_settings(folder) if (folder / SETTINGS_FILE).is_file() else Context()


def _list_related_data(folder: Path, context: Context) -> Iterator[str]:
    if context.memory:
        yield f"the memory {context.memory!r}, which several runs share, may hold lessons of this run"
    if context.cache:
        yield f"the cache {context.cache} holds model replies of this run"
    for log in sorted(folder.parent.glob("*.eval")):
        yield f"{log} is an inspect log with the answers of all its runs"
    if found := find_manifest(folder):
        whole, manifest = found
        files = f"{', '.join(manifest.files)} in {whole} count this run"
        yield f"{files}; the next `{manifest.command}` there runs it again"
    yield "web pages that the run read are in the web cache; exports, judgements and drawings are where you saved them"


def find_journals(folder: Path) -> Iterator[Path]:
    """Find the journals of evaluations that have a line about a run, next to the run's folder."""
    files = (file for file in folder.parent.glob("journal-*.jsonl") if not file.is_symlink())
    return (file for file in files if any(_names_run(line, folder.name) for line in _read_journal(file)))


def _remove_journal_lines(journal: Path, run: str) -> None:
    with replace_file(journal) as draft, draft.open("wb") as file:
        file.writelines(line for line in _read_journal(journal) if not _names_run(line, run))


def _read_journal(journal: Path) -> Iterator[bytes]:
    with journal.open("rb") as file:
        yield from read_bounded_lines(file, str(journal), fix="repair that journal, then delete the run")


def _names_run(line: bytes, run: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, list) and entry[-1:] == [run]
