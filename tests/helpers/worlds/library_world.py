"""A scripted search world and a scripted model: what a query finds, and what is answered, are given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.run import FINISH, parse_action

GOAL = "Who mapped the river that feeds Lake Osk?"

Finds = Callable[[str], Sequence[str]]


def same_passages(query: str) -> Sequence[str]:
    """The same two passages whatever is asked."""
    return ("alpha", "beta")


def new_passages(query: str) -> Sequence[str]:
    """Two passages that no other query finds."""
    return (f"{query} one", f"{query} two")


class LibraryBenchmark(Benchmark):
    """A benchmark of one question. `finds` gives the ids, which are titles too, of what a query finds."""

    name = "seeking"
    briefing = "You search a library by search[...] and hand in an answer by finish[...]."
    instant = True

    def __init__(self, finds: Finds = new_passages, *, answers: bool = True, words: int = 8, **limits: Any) -> None:
        self.finds, self.answers, self.words = finds, answers, words
        self.limits = Limits(**{"steps": 60, **limits})
        self.worlds: list[Library] = []

    def tasks(self, split: str = "") -> list[Task]:
        return [self.task("only")]

    def task(self, task_id: str) -> Task:
        return Task(benchmark=self.name, id=task_id, goal=GOAL)

    def open(self, task: Task) -> "Library":
        self.worlds.append(Library(self))
        return self.worlds[-1]


class Library(Environment):
    """The world of a Seeking."""

    concurrent = True

    def __init__(self, seeking: LibraryBenchmark) -> None:
        self.seeking, self.actions, self.answer = seeking, list[Action](), ""

    def reset(self) -> Observation:
        return Observation(text="The library is open.")

    def step(self, action: Action) -> Observation:
        self.actions.append(action)
        meant = parse_action(action)
        if meant and meant.kind == FINISH:
            self.answer = str(meant.args["answer"])
            return Observation(text="Handed in.", done=True)
        found = self.seeking.finds(str(meant.args.get("query"))) if meant else ()
        if not found:
            return Observation(text=f"Nothing for {action.text}.", accepted=False)
        text = "\n".join(f"{id}: {'word ' * self.seeking.words}about {id}." for id in found)
        return Observation(text=text, sources=tuple(found))

    def view(self) -> str:
        return "VIEW"

    def score(self) -> Scores:
        return Scores(value=0.0, answer=self.answer)


class ScriptedModel:
    """Answers by a field of the question's form: a value, or what a function makes of (prompt, times asked before).

    Prose is asked for as `text`. What is not written down gets the least instance of the form.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.requests: list[tuple[frozenset[str], str]] = []

    def __call__(self, prompt: str, schema: Mapping[str, Any]) -> Any:
        fields = frozenset(schema.get("properties", {"text"}))
        times = sum(fields == before for before, _ in self.requests)
        self.requests.append((fields, prompt))
        given = next((self.answers[field] for field in self.answers if field in fields), minimal_instance(dict(schema)))
        return given(prompt, times) if callable(given) else given

    def prompts(self, field: str) -> list[str]:
        return [prompt for fields, prompt in self.requests if field in fields]


def search_move(text: str) -> dict[str, str]:
    """A move of the agents that use tools; MemGPT's too."""
    return {"thought": f"thinking of {text}", "remember": "", "tool": "search", "text": text}


def same_search(prompt: str, times: int) -> dict[str, str]:
    """An agent that loops."""
    return search_move("Lake Osk")


def new_search(prompt: str, times: int) -> dict[str, str]:
    """An agent that asks for something new every time."""
    return search_move(f"q{times} r{times}")


def run_graph(
    graph: Any, scripted_model: ScriptedModel, world: LibraryBenchmark | None = None, **context: Any
) -> dict[str, Any]:
    """The final state of one run."""
    world = world or LibraryBenchmark()
    given = Context(benchmark=world, chat=ScriptedChat(responder=scripted_model), **context)
    return graph.invoke({"task": world.task("only")}, context=given)
