"""Lines of a run without predicates, made by hand: what STEP's graph would have written."""

from certigraph.state.records import Action, Observation, Scores, Step, Task, Usage
from certigraph.state.run import Turn
from certigraph.state.step import Approval, Lesson, StepSubtask, Trial
from certigraph.state.trajectory import Event, Footer, Header, Trajectory, assemble_trajectory

TASK = Task(benchmark="toy", id="1", goal="boil water")
CONTEXT = {"model": "scripted:x", "limits": {"trials": 3, "steps": 40}}


class EpisodeTape:
    """Each method writes the lines of one thing that happened; scores are 0 to 100."""

    def __init__(self, graph: str = "step", goal: str = TASK.goal) -> None:
        task = TASK.model_copy(update={"goal": goal})
        self.header = Header(
            run_id="r", created="now", graph=graph, operators={}, task=task, context=CONTEXT, versions={}
        )
        self.lines: list[Event] = []
        self.trial = self.score = self.steps = 0

    def event(self, node: str, replaced: tuple[str, ...] = (), **update) -> "EpisodeTape":
        usage = Usage(node=node, calls=1, input_tokens=10, output_tokens=2)
        superstep = len(self.lines) + 1
        self.lines.append(
            Event(t=0.0, superstep=superstep, node=node, usage=usage, update=update, replaced=list(replaced))
        )
        return self

    def episode(self) -> "EpisodeTape":
        self.trial, self.score, self.steps = self.trial + 1, 0, 0
        logs = {"history": [], "turns": [], "subtasks": []}
        first = Observation(text="a room", data={"score": 0}).as_json()
        return self.event("reset", tuple(logs), trial=self.trial, observation=first, **logs)

    def plan(self, text: str) -> "EpisodeTape":
        self.subtask = StepSubtask(text=text)
        return self.event("planner", subtask=self.subtask.as_json())

    def refuse(self, action: str, reason: str) -> "EpisodeTape":
        self.event("executor", action=Action(text=action).as_json(), thought="")
        return self.event("align", approval=Approval(approved=False, reason=reason).as_json())

    def act(self, action: str, score: int | None = None, answer: str = "done", thought: str = "why") -> "EpisodeTape":
        before, self.score = self.score, self.score if score is None else score
        self.steps += 1
        seen = Observation(text=answer, reward=(self.score - before) / 100, data={"score": self.score})
        turn = Turn(thought=thought, action=action, observation=answer, reward=seen.reward)
        step = Step(action=Action(text=action), digest="d").as_json()
        return self.event("act", observation=seen.as_json(), history=[step], turns=[turn.as_json()])

    def assess(self, status: str, reason: str = "") -> "EpisodeTape":
        judged = self.subtask.model_copy(update={"status": status, "reason": reason}).as_json()
        return self.event("assess", subtask=judged, subtasks=[] if status == "open" else [judged])

    def conclude(self, ending: str, **lesson) -> "EpisodeTape":
        scores = Scores(value=max(self.score, 0) / 100)
        trial = Trial(number=self.trial, scores=scores, ending=ending, steps=self.steps)
        self.event("conclude", trials=[trial.as_json()])
        report = f"Score {self.score} of 100."
        return self.event("memory", lessons=[Lesson(trial=self.trial, report=report, **lesson).as_json()])

    def trajectory(self, ending: str = "") -> Trajectory:
        scores = Scores(value=max(self.score, 0) / 100)
        footer = [Footer(ending=ending, scores=scores, usage=Usage(node="all"))] if ending else []
        return assemble_trajectory([self.header, *self.lines, *footer])


def two_episodes() -> EpisodeTape:
    """A first episode that is lost by one action, and a second that is warned of it."""
    tape = EpisodeTape().episode().plan("find the kitchen").act("go to kitchen", 8).assess("completed", "it is there")
    tape.plan("fill a pot").act("look").assess("open").act("focus on picture", -100).assess("failed", "8 actions")
    insights = ("focusing on the picture DOES NOT CONTRIBUTE to boiling", "the sink SHOULD BE NECESSARY to water")
    tape.conclude("world_ended", insights=insights, strategy=("open the sink", "fill the pot"))
    tape.episode().plan("fill the pot").refuse("focus on picture", "the picture does not help")
    return tape.act("open sink", 25).assess("completed").plan("heat it").act("turn on stove", 40, "\nIt glows.\nMore.")
