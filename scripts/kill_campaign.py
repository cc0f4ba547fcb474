"""Kill runs at random times, resume them, and compare them with uninterrupted runs; count a model server's requests.

    python scripts/kill_campaign.py kills --trials 300 --scienceworld 50 [--clock-step -3600]
    python scripts/kill_campaign.py budgets --trials 240
    python scripts/kill_campaign.py postgres --trials 20 --clock-step 60

`kills` compares ending, certificates, scores and state. `budgets` runs every graph with `calls=N`, N = 1..12, against
an OpenAI-compatible server that answers like the benchmark's expert and misbehaves in a chosen way; it kills the run
between requests, resumes it until it ends, and compares the run's recorded calls with the server's count. Child
processes are forked from a process that has imported everything, so that a trial takes milliseconds. Linux only.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ACTING = (
    "sdp", "tdp", "step", "react", "react_reward", "mcts", "reflexion", "clin", "plan_and_solve", "plan_and_act", "cot",
)  # fmt: skip
SEARCHING = ("pbai", "ircot", "memgpt", "iter_retgen", "hypotheses")
PREDICTING = ("statefactory", "monotonic", "reward_judge")
MODEL = "simulated:seed=5"
SCIENCEWORLD = ("sdp", "react", "step", "tdp", "plan_and_solve")
VARYING = ("episode", "usage", "spent")
"""State keys that differ between runs: a random thread id, and costs."""

MISBEHAVIOURS = (
    "healthy", "no_schema", "no_temperature", "always_400", "flaky_500", "rate_limit", "no_usage", "surrogate",
    "garbage", "reset",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run: a graph on a task, with a model."""

    graph: str
    benchmark: str
    task: str
    model: str = MODEL


def acting_cases() -> list[Case]:
    """List every graph on a world that fits it."""
    blocks = [Case(graph, "blocksworld", task) for graph in ACTING for task in ("4-0", "6-0")]
    search = [Case(graph, world, "") for graph in SEARCHING for world in ("musique", "hotpotqa")]
    rewards = [Case(graph, "rewardprediction", "") for graph in PREDICTING]
    return [*blocks, *search, Case("sdp", "travelplanner", ""), *rewards]


def scienceworld_cases() -> list[Case]:
    """List graphs on ScienceWorld's simulator, whose expert follows the gold path."""
    tasks = ("find-plant:0", "find-animal:0", "power-component:0", "boil:0")
    return [Case(graph, "scienceworld", task, "scripted:expert") for graph in SCIENCEWORLD for task in tasks]


# One child process.


def step_clock(seconds: float) -> None:
    """Shift the wall clock of this process by some seconds."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + int(seconds * 1e9)


def run_folder(out: Path) -> Path:
    """Return the folder of the run under `out`; its name is unique, because on a server it is the thread id."""
    return out / f"run-{out.name}"


def start_or_resume(case: Case, out: Path, clock: float, context: dict[str, Any]) -> None:
    """Start the run of a case under `out`, or resume it where it exists."""
    from certigraph.adapters.protocols import Budget, Context
    from certigraph.runtime.files import has_header
    from certigraph.runtime.run import arun, resume, run_blocking
    from certigraph.state.endings import Fault

    if clock:
        step_clock(clock)
    folder = run_folder(out)
    path = folder / "trajectory.jsonl"
    if path.is_file() and has_header(path):
        with suppress(Fault):  # a run that has ended cannot be resumed; its outcome is compared later
            resume(folder)
        return
    calls = context.pop("calls", None)
    budget = {"budget": Budget(calls=calls)} if calls is not None else {}
    chosen = Context(model=case.model, **budget, **context)
    run_blocking(arun(case.graph, case.benchmark, case.task or None, context=chosen, out=out, name=folder.name))


def import_everything() -> None:
    """Import what runs need before processes are forked; nothing is run here, because a fork must find no threads."""
    import importlib

    for graph in (*ACTING, *SEARCHING, *PREDICTING):
        importlib.import_module(f"certigraph.graphs.{graph}")
    modules = (
        "certigraph.runtime.run",
        "certigraph.runtime.registry",
        "langgraph.pregel.main",
        "langchain_openai",
    )
    for module in (*modules, "sentence_transformers", "transformers.models.bert.modeling_bert"):
        with suppress(ImportError):
            importlib.import_module(module)
    from certigraph.adapters.benchmarks import load_benchmark

    for world in ("blocksworld", "musique", "hotpotqa", "travelplanner", "rewardprediction", "scienceworld"):
        load_benchmark(world)


def spawn(function: Callable[..., None], *arguments: Any) -> multiprocessing.Process:
    """Run a function in a forked process; an error is printed and ends it with status 1."""

    def guarded() -> None:
        os.setsid()
        try:
            function(*arguments)
        except BaseException:  # noqa: BLE001 - a forked child must not return into its parent's code
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=guarded)
    process.start()
    return process


def kill(process: multiprocessing.Process) -> None:
    """Kill a process group with SIGKILL (a JVM would also end without it, but later)."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()


# The campaign of kills.


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run, without what differs between runs."""

    ending: str
    certificates: str
    state: Any
    scores: Any
    superseded: int


def read_outcome(out: Path) -> Outcome:
    """Read the outcome of the run under `out`."""
    from certigraph.runtime.result import Result

    result = Result(run_folder(out))
    state = {key: value for key, value in result.state.items() if key not in VARYING}
    if "branches" in state:  # concurrent searches are recorded in the order of their ends
        state["branches"] = sorted(state["branches"], key=lambda branch: branch.number)
    certificates = [c.as_json() for c in result.certificates]
    scores = result.scores.as_json() if result.scores else None
    superseded = len(result.trajectory.superseded)
    return Outcome(result.ending, json.dumps(certificates, default=str), to_plain(state), scores, superseded)


def find_lost_progress(out: Path) -> str:
    """Return a message where a resume started at an earlier checkpoint than the one before it; else an empty string."""
    lines = (json.loads(line) for line in (run_folder(out) / "trajectory.jsonl").read_bytes().splitlines())
    steps = [line["superstep"] for line in lines if line["type"] == "resumed"]
    return "" if steps == sorted(steps) else f"resumes went back: supersteps {steps}"


def to_plain(value: Any) -> Any:
    """Convert records to dictionaries, so that their numbers can be compared."""
    if hasattr(value, "model_dump"):
        return to_plain(value.model_dump())
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, list | tuple) else value


def is_close(one: Any, other: Any) -> bool:
    """Return whether two plain values are equal, floats within 1e-6."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    return bool(one == other)


def find_differences(resumed: Outcome, uninterrupted_run: Outcome) -> list[str]:
    """List the parts in which a resumed run differs from an uninterrupted one."""
    parts = ("ending", "certificates", "scores", "state")
    return [part for part in parts if not is_close(getattr(resumed, part), getattr(uninterrupted_run, part))]


@dataclass
class CampaignResult:
    """Counts and problems of a campaign."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def print(self) -> None:
        """Print one JSON line of counts, then every problem."""
        print(json.dumps(self.counts))
        print(*self.problems, sep="\n")


def run_uninterrupted(case: Case, root: Path, context: dict[str, Any]) -> tuple[Outcome, float]:
    """Run a case without interruption; return its outcome and seconds."""
    out = root / "whole" / f"{case.graph}-{case.benchmark}-{case.task or 'first'}".replace(":", "_")
    out.mkdir(parents=True)
    start = time.monotonic()
    process = spawn(start_or_resume, case, out, 0.0, dict(context))
    process.join(300)
    if process.exitcode != 0:
        raise SystemExit(f"{case}: the uninterrupted run failed ({process.exitcode})")
    return read_outcome(out), time.monotonic() - start


def kill_trial(
    case: Case, out: Path, seconds: float, random_source: random.Random, clocks: list[float], context: dict[str, Any]
) -> int:
    """Kill a case's run in one to three rounds, then let it end; return the number of kills that hit a live process."""
    hits = 0
    for clock in clocks[:-1]:
        process = spawn(start_or_resume, case, out, clock, dict(context))
        process.join(random_source.uniform(0.0, seconds))
        hits += process.is_alive()
        kill(process)
    process = spawn(start_or_resume, case, out, clocks[-1], dict(context))
    process.join(300)
    if process.exitcode not in (0, 1):
        kill(process)
    return hits


def run_kills(options: argparse.Namespace, root: Path, context: dict[str, Any] | None = None) -> CampaignResult:
    """Kill runs of all graphs, and of ScienceWorld, at random times."""
    from certigraph.runtime.result import Result
    from certigraph.state.endings import Fault

    random_source, result = random.Random(options.seed), CampaignResult()
    context = context or {}
    wanted = [(acting_cases(), options.trials - options.scienceworld), (scienceworld_cases(), options.scienceworld)]
    references: dict[Case, tuple[Outcome, float]] = {}
    number = 0
    for cases, trials in wanted:
        for trial in range(trials):
            case = cases[trial % len(cases)]
            if case not in references:
                references[case] = run_uninterrupted(case, root, context)
            number += 1
            out = root / str(number)
            out.mkdir()
            expected, seconds = references[case]
            clocks = [turn * options.clock_step for turn in range(random_source.randint(2, 4))]
            result.counts["trials"] += 1
            result.counts["kills"] += (hits := kill_trial(case, out, seconds, random_source, clocks, context))
            try:
                actual = read_outcome(out)
                resumed = Result(run_folder(out)).trajectory.resumes
            except Fault as fault:
                result.problems.append(f"{number} {case}: {fault}")
                continue
            result.counts["resumed"] += resumed > 0
            if lost := find_lost_progress(out):
                result.problems.append(f"{number} {case} clocks={clocks}: {lost}")
            result.counts["killed"] += hits > 0
            if different := find_differences(actual, expected):
                endings = f"{actual.ending} instead of {expected.ending}"
                result.problems.append(f"{number} {case} clocks={clocks}: {', '.join(different)} differ ({endings})")
            else:
                result.counts["identical"] += 1
                shutil.rmtree(out)
            if sys.stderr.isatty() or not number % 25:
                print(f"{number}: {dict(result.counts)}", file=sys.stderr)
    return result


# The campaign of budgets.


class Server(ThreadingHTTPServer):
    """Server that answers like the expert of the world that the model is named after, and misbehaves in one way.

    Every request first appends a byte to a file, which counts the requests.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, kind: str, log: Path, delay: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        from certigraph.adapters.benchmarks import load_benchmark

        self.kind, self.log, self.delay = kind, log, delay
        self.experts: Any = {world: load_benchmark(world).expert() for world in ("blocksworld", "musique")}
        self.draw = random.Random(kind)


class Handler(BaseHTTPRequestHandler):
    """Handles one request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Count the request, then answer or fail."""
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.log.open("ab") as log:
            log.write(b".")
        time.sleep(server.delay)
        refused = {"no_schema": "response_format", "no_temperature": "temperature"}.get(server.kind)
        if server.kind == "always_400" or (refused and refused in body):
            message = f"Unsupported parameter: '{refused}' is not supported with this model." if refused else "no"
            self.send(400, {"error": {"message": message, "param": refused, "code": "unsupported_parameter"}})
        elif server.kind == "flaky_500" and server.draw.random() < 0.3:
            self.send(500, {"error": {"message": "overloaded"}})
        elif server.kind == "rate_limit" and server.draw.random() < 0.3:
            self.send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.05"})
        elif server.kind == "reset" and server.draw.random() < 0.3:
            self.connection.close()
            self.close_connection = True
        else:
            self.send(200, self.completion(body))

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Build the completion with the expert's answer, malformed at random where the server's kind asks for it."""
        texts = [message["content"] for message in body["messages"]]
        form = (body.get("response_format") or {}).get("json_schema", {}).get("schema") or written_schema(texts[-1])
        try:
            answer = json.dumps(self.server.experts[body["model"]]("\n\n".join(texts), form))
        except Exception:  # noqa: BLE001 - an expert that cannot read a prompt is one more bad answer
            answer = "{}"
        malformed = self.server.draw.random() < 0.3
        if self.server.kind == "garbage" and malformed:
            answer = "I would rather not."
        if self.server.kind == "surrogate" and malformed:
            answer = "\ud800" + answer
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        message = {"role": "assistant", "content": answer}
        completion = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "usage": usage}
        if self.server.kind in ("no_usage", "surrogate"):
            del completion["usage"]
        return {**completion, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def send(self, status: int, payload: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        """Send a JSON body."""
        data = json.dumps(payload).encode()
        with suppress(OSError):
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def written_schema(prompt: str) -> dict[str, Any]:
    """Return the JSON schema in the last line of a prompt; empty where there is none."""
    with suppress(ValueError):
        schema = json.loads(prompt.strip().rpartition("\n")[2])
        return schema if isinstance(schema, dict) else {}
    return {}


def serve(kind: str, log: Path, address: Path, delay: float) -> None:
    """Serve until the process is killed; the port is written to the file `address`."""
    server = Server(kind, log, delay)
    draft = address.with_suffix(".new")
    draft.write_text(str(server.server_port))
    draft.rename(address)
    server.serve_forever(0.01)


def count_of(log: Path) -> int:
    """Return the number of requests that the server received."""
    return log.stat().st_size if log.exists() else 0


def budget_trial(
    case: Case, calls: int, out: Path, log: Path, random_source: random.Random, rounds: int
) -> tuple[str, int]:
    """Kill the run when the server has received some more requests, `rounds` times; then resume it twice.

    Returns:
        A problem, or an empty string, and the number of kills that hit a live process.
    """
    kills = 0
    for _ in range(rounds):
        until = count_of(log) + random_source.randint(0, max(1, calls // 2))
        process = spawn(start_or_resume, case, out, 0.0, {"calls": calls})
        deadline = time.monotonic() + 10
        while process.is_alive() and count_of(log) <= until and time.monotonic() < deadline:
            time.sleep(0.0005)
        process.join(random_source.uniform(0.0, 0.01))
        kills += process.is_alive()
        kill(process)
    for _ in range(2):  # a second resume must cost nothing
        process = spawn(start_or_resume, case, out, 0.0, {"calls": calls})
        process.join(60)
        if process.is_alive():
            kill(process)
            return "hangs", kills
    return "", kills


def run_budgets(options: argparse.Namespace, root: Path) -> CampaignResult:
    """Run budgets of 1 to 12 calls on healthy and misbehaving servers, with and without kills."""
    from certigraph.adapters.trajectories import read_trajectory

    random_source, result = random.Random(options.seed), CampaignResult()
    os.environ.update(OPENAI_API_KEY="sk-campaign-0123456789abcdef")
    kinds = options.kind or MISBEHAVIOURS
    servers: dict[str, tuple[Path, multiprocessing.Process, str]] = {}
    for kind in kinds:
        log, address = root / f"{kind}.log", root / f"{kind}.port"
        process = spawn(serve, kind, log, address, options.delay)
        while not address.exists():
            time.sleep(0.01)
        servers[kind] = (log, process, address.read_text())
    try:
        for number in range(options.trials):
            kind, graph = kinds[number % len(kinds)], random_source.choice([*ACTING, *SEARCHING])
            calls, rounds = 1 + number % 12, random_source.randint(0, 2)
            log, _, port = servers[kind]
            os.environ["CERTIGRAPH_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
            world = "blocksworld" if graph in ACTING else "musique"
            case = Case(graph, world, "8-0" if graph in ACTING else "", f"openai:{world}")
            before, out = count_of(log), root / f"b{number}"
            out.mkdir()
            problem, kills = budget_trial(case, calls, out, log, random_source, rounds)
            time.sleep(2 * options.delay + 0.01)
            received = count_of(log) - before
            recorded = read_trajectory(run_folder(out) / "trajectory.jsonl")
            record = budget_record(problem, received, int(recorded.usage.calls), calls, kills)
            result.counts.update(["trials", *record])
            if {"over", "unrecorded", "hangs"} & set(record) or ("overcounted" in record and not kills):
                details = f"server {received}, recorded {recorded.usage.calls}, kills {kills}, {recorded.ending}"
                result.problems.append(f"b{number} {kind} {case} calls={calls}: {' '.join(record)}; {details}")
    finally:
        for _, process, _ in servers.values():
            kill(process)
    return result


def budget_record(problem: str, received: int, recorded: int, calls: int, kills: int) -> list[str]:
    """Return the names under which one trial is counted."""
    record = [problem] if problem else []
    record += ["over"] if received > calls else []
    record += ["unrecorded"] if recorded < received else ["overcounted"] if recorded > received else ["equal"]
    return [*record, *(["killed"] if kills else [])]


# The command line.


def run_postgres(options: argparse.Namespace, root: Path) -> CampaignResult:
    """Run `kills` with checkpoints on a Postgres server that the campaign starts."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers.servers.postgres_server import running_server  # type: ignore[import-not-found]

    with running_server() as server:
        os.environ["CERTIGRAPH_POSTGRES"] = server.url
        return run_kills(options, root)


def main() -> None:
    """Run one campaign and exit with 1 if it found a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", choices=("kills", "budgets", "postgres"))
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--scienceworld", type=int, default=0, help="how many of the trials are on the real simulator")
    parser.add_argument("--clock-step", type=float, default=0.0, help="seconds between the clocks of two resumes")
    parser.add_argument("--delay", type=float, default=0.005, help="seconds that the server takes to answer")
    parser.add_argument("--kind", action="append", choices=MISBEHAVIOURS, help="only servers of this kind; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="an empty folder for the runs; a temporary one otherwise")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a failed run is an expected outcome, and is read from its trajectory
    root = options.out or Path(tempfile.mkdtemp(prefix="kill-campaign-"))
    root.mkdir(parents=True, exist_ok=True)
    campaigns = {"kills": run_kills, "budgets": run_budgets, "postgres": run_postgres}
    import_everything()
    result = campaigns[options.campaign](options, root)
    result.print()
    if result.problems:
        print(f"the runs are in {root}", file=sys.stderr)
        raise SystemExit(1)
    if not options.out:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
