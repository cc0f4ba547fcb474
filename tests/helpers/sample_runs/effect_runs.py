"""Lines of a run over tools, made by hand: calls with answers, checks before them, certificates after them."""

from certigraph.state.call_checks import CallCheck
from certigraph.state.records import Attempt, Certificate, Observation, Predicate, Step, Task, Usage, Verdict
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall, create_tool_action
from certigraph.state.trajectory import Event, Footer, Header, Trajectory, assemble_trajectory


class EffectTape:
    """Each method writes the lines of one thing that happened in the run."""

    def __init__(self, *conditions: str, graph: str = "sdp", goal: str = "Settle the ticket.") -> None:
        task = Task(benchmark="tools", id="request", goal=goal)
        context = {"model": "scripted:x"}
        self.header = Header(
            run_id="r", created="now", graph=graph, operators={}, task=task, context=context, versions={}
        )
        self.lines: list[Event] = []
        self.plan = [Predicate(text=text) for text in conditions]
        self.head = self.actions = self.calls = 0
        self.scope = self.subtask = ""
        self.event("reset", ("history", "answers"), history=[], answers=[])
        if conditions:
            self.event("propose", plan=[one.as_json() for one in self.plan], head=0)

    def event(self, node, replaced=(), **update) -> "EffectTape":
        usage = Usage(node=node, calls=1, input_tokens=1200, output_tokens=80, cached_tokens=400, seconds=1.4)
        call = {"role": node, "model": "scripted:x", "schema_name": "", "unpriced": True}
        where = {"superstep": len(self.lines) + 1, "scope": self.scope, "subtask": self.subtask}
        self.lines.append(
            Event(t=0.0, node=node, usage=usage, calls=[call], update=update, replaced=list(replaced), **where)
        )
        return self

    def enter(self, subtask: str, steps: int = 0) -> "EffectTape":
        """Go on in the graph of a sub-task, before which others took a number of steps."""
        self.scope, self.subtask, self.actions, self.calls = f"solve:{subtask}", subtask, 0, 0
        self.event("reset", ("history", "answers"), history=[], answers=[])
        self.lines[-1] = self.lines[-1].model_copy(update={"repeated": steps})
        return self

    def check(self, tool: str, outcome: str = "allowed", **fields) -> "EffectTape":
        """Write what was found about a call of the next action."""
        args = fields.pop("args", {})
        found = CallCheck(tool=tool, args=args, outcome=outcome, action=self.actions + 1, **fields)
        return self.event("check", checks=[found.as_json()])

    def act(self, *calls: AnsweredCall, **flags) -> "EffectTape":
        """Write an action with its calls; `flags` are fields of each of them, such as `approved`."""
        self.actions += 1
        self.calls += len(calls)
        chosen = [
            ToolCall(
                name=one.tool,
                args=one.args,
                refused="" if one.made else one.answer,
                error=one.answer if one.made and one.failed else "",
                **flags,
            )
            for one in calls
        ]
        seen = Observation(
            text="\n\n".join(one.answer for one in calls),
            accepted=any(one.made for one in calls),
            data={"result": "failed"} if any(one.failed for one in calls) else {},
        )
        self.action = create_tool_action(chosen)
        step = Step(action=self.action, digest="d")
        answers = [one.model_copy(update={"action": self.actions}).as_json() for one in calls]
        return self.event("act", history=[step.as_json()], observation=seen.as_json(), answers=answers)

    def judge(self, depth: int = 0, reason: str = "", **fields) -> "EffectTape":
        """Write the verdict on the latest action, and the certificate that follows from it."""
        verdict = Verdict(depth=depth, reason=reason, **({"decided_by": "model"} | fields))
        attempt = Attempt(
            position=self.head, target=self.plan[self.head], action=self.action, digest="d", verdict=verdict
        )
        self.event("validate", attempts=[attempt.as_json()], verdict=verdict.as_json())
        return self.certify(depth, verdict) if depth else self

    def certify(self, depth: int, verdict: Verdict) -> "EffectTape":
        """Write a certificate of the next conditions."""
        certificate = Certificate(
            step=self.actions,
            position=self.head,
            targets=tuple(self.plan[self.head : self.head + depth]),
            action=self.action,
            digest="d",
            **verdict.model_dump(include={"evidence", "decided_by", "rests_on", "calls"}),
        )
        self.head += depth
        return self.event("certify", certificates=[certificate.as_json()], head=self.head)

    def trajectory(self, ending: str = "", **footer) -> Trajectory:
        """The run so far; with an ending it has a footer."""
        lines = [Footer(ending=ending, usage=Usage(node="all"), **footer)] if ending else []
        return assemble_trajectory([self.header, *self.lines, *lines])


def look(tool: str, answer: str, **args) -> AnsweredCall:
    """A call that only looks something up."""
    return AnsweredCall(tool=tool, args=args, answer=answer, lasting=False)


def do(tool: str, answer: str = "done", *, failed: bool = False, **args) -> AnsweredCall:
    """A call whose effect lasts."""
    return AnsweredCall(tool=tool, args=args, answer=answer, failed=failed)
