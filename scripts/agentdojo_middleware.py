"""Run the scripted models of `agentdojo_attacks.py` on AgentDojo by LangChain's create_agent with `CommitTools`.

    python scripts/agentdojo_middleware.py --out rows.csv --attacks none --levels none tools arguments
    python scripts/agentdojo_middleware.py --out rows.csv --attacks important_instructions --levels tools arguments \
        --beside results/agentdojo/important_instructions.csv

The expert and the gullible script decide from the same facts as in certigraph's graphs: the calls so far with what was
refused, and the answers of tools. So each pair should end as it does by `certigraph.agent("react", commitments=...)`.
With `--beside`, the pairs are listed that ended otherwise than in a file of `agentdojo_attacks.py`.

Rows are appended to the file as runs end; what it holds is not run again. Prints a Markdown table of all its rows.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from agentdojo_attacks import NONE, Key, append_row, can_attempt, format_table, name_benchmark, read_rows
from agentdojo_gullible import gullible_expert
from agentdojo_peers import PEER, give_tools
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.scripts import Situation, use_situation
from certigraph.adapters.protocols import Responder
from certigraph.benchmarks.agentdojo.attacks import ATTACKS
from certigraph.benchmarks.agentdojo.encodings import ENCODINGS, SEPARATOR, split_name
from certigraph.benchmarks.agentdojo.expert import dojo_expert
from certigraph.benchmarks.agentdojo.world import ATTACK, INSTRUCTIONS, LIMITS, SUITES, UTILITY
from certigraph.middleware.commitments import CommitTools
from certigraph.nodes.conversations import TurnView, is_made, state_of
from certigraph.nodes.outside_agents import no_tools
from certigraph.state.commitments import CommitmentLevel
from certigraph.state.records import Task
from certigraph.state.run import FINISH, Evidence
from certigraph.state.tools import ANSWER_ARGUMENT


def main() -> int:
    """Run what the file lacks, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="CSV file to which rows are appended")
    parser.add_argument("--attacks", nargs="+", default=[NONE], choices=(NONE, *ATTACKS))
    parser.add_argument("--encoding", default="", choices=ENCODINGS, help="form in which the attacker writes the order")
    parser.add_argument("--levels", nargs="+", default=["arguments"], choices=(NONE, *get_args(CommitmentLevel)))
    parser.add_argument("--limit", type=int, help="number of tasks or pairs for each combination")
    parser.add_argument("--beside", type=Path, help="CSV file of agentdojo_attacks.py to compare with, pair by pair")
    given = parser.parse_args()
    rows = read_rows(given.out)
    for attack in (SEPARATOR.join(filter(None, (attack, given.encoding))) for attack in given.attacks):
        benchmark = load_benchmark(name_benchmark(attack))
        tasks = [task for suite in SUITES for task in benchmark.tasks(suite) if can_attempt(task)]
        for task in tasks[: given.limit]:
            for key in (Key(PEER, attack, level, task.id) for level in given.levels):
                if key not in rows:
                    rows[key] = run_task(key, task)
                    append_row(given.out, rows[key])
    print(format_table(rows))
    if given.beside:
        print(format_differences(rows, read_rows(given.beside)))
    return 0


def run_task(key: Key, task: Task) -> dict[str, Any]:
    """Run the agent on a task, and return its row."""
    began, attacked = time.perf_counter(), key.attack != NONE
    suite: Any = load_benchmark(name_benchmark(key.attack)).for_task(task)  # type: ignore[attr-defined]
    world = suite.open(task)
    world.reset()
    model = DojoChat(responder=gullible_expert(split_name(key.attack)[1]) if attacked else dojo_expert(), task=task)
    level: Any = key.commitments
    middleware: list[AgentMiddleware[Any, Any]] = [] if level == NONE else [CommitTools(level=level)]
    middleware.append(ModelCallLimitMiddleware(run_limit=LIMITS.steps))
    settings: Any = {"system_prompt": INSTRUCTIONS, "middleware": middleware}
    agent: Any = create_agent(model, give_tools(suite, world), **settings)
    messages = agent.invoke({"messages": [("user", task.goal)]})["messages"]
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    ended = bool(messages[-1].response_metadata.get(ENDED))
    world.step(suite.finish_action({ANSWER_ARGUMENT: messages[-1].text if ended else ""}))
    scores = world.score()
    return {
        **key._asdict(),
        "ending": "answered" if ended else "limit:calls",
        "utility": int(scores.parts[UTILITY] or 0),
        "attack_succeeded": int(scores.parts[ATTACK] or 0) if attacked else "",
        "calls": len(answers),
        "refused": sum(not is_made(one) for one in answers),
        "seconds": f"{time.perf_counter() - began:.2f}",
    }


ENDED = "scripted_end"
"""Key in the metadata of the script's own answer, which a message about a limit lacks."""


class DojoChat(BaseChatModel):
    """A scripted model of AgentDojo that calls tools as LangChain's agents expect it."""

    responder: Responder
    task: Task

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind the names of the tools that are offered."""
        return self.bind(names=[tool.name for tool in tools])

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if form := kwargs.get("response_format"):
            message = AIMessage(
                json.dumps(self._respond({"task": self.task, "history": []}, form["json_schema"]["schema"]))
            )
            return ChatResult(generations=[ChatGeneration(message=message)])
        said: Any = [one for one in messages if not isinstance(one, SystemMessage)]
        state = {**state_of(said, no_tools(), TurnView()), "task": self.task}
        options = [{"properties": {"name": {"const": name}}} for name in (*kwargs.get("names", ()), FINISH)]
        [call] = self._respond(state, {"properties": {"calls": {"items": {"anyOf": options}}}})["calls"]
        if call["name"] == FINISH:
            message = AIMessage(call["args"][ANSWER_ARGUMENT], response_metadata={ENDED: True})
        else:
            message = AIMessage("", tool_calls=[{**call, "id": f"call-{len(messages)}"}])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _respond(self, state: Mapping[str, Any], form: dict[str, Any]) -> Any:
        turns = [SimpleNamespace(observation=one.answer) for one in state.get("answers", ())]
        view = {"evidence": Evidence(), "task": self.task, "turns": turns}
        with use_situation(Situation("decide", 0, state, view)):
            return self.responder("", form)


def format_differences(rows: Mapping[Key, Mapping[str, Any]], others: Mapping[Key, Mapping[str, Any]]) -> str:
    """List the pairs that ended otherwise than by certigraph's react under the same commitments."""
    lines = ["", "Pairs that ended otherwise than by react (utility, attack):"]
    compared = 0
    for key, row in rows.items():
        if other := others.get(key._replace(method="react")):
            compared += 1
            found, before = ([str(one[name]) for name in ("utility", "attack_succeeded")] for one in (row, other))
            if found != before:
                lines.append(f"- {key.task} {key.attack} {key.commitments}: {found}, by react {before}")
    return "\n".join([*lines, f"{len(lines) - 2} of {compared}"])


if __name__ == "__main__":
    sys.exit(main())
