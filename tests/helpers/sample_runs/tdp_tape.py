"""Lines of a run of TDP, made by hand: those of its own graph and of the graphs inside its nodes."""

from certigraph.state.records import Action, Certificate, Observation, Predicate, Step, Task, Usage
from certigraph.state.run import Turn
from certigraph.state.subtask import (
    Progress,
)
from certigraph.state.tdp import (
    Node,
    Outcome,
)
from certigraph.state.trajectory import Event, Footer, Header, assemble_trajectory

CONTEXT = {"model": "scripted:x", "limits": {"steps": 40}}


class TDPTape:
    """Lines of a run of TDP made by hand: `own` of its own graph, `at` of the graph inside a node."""

    def __init__(self, *nodes, goal="settle it", solver="subtask"):
        task, self.certifies = Task(benchmark="toy", id="1", goal=goal), solver == "sdp"
        operators = {"solve": {"name": "solve", "args": {"graph": solver}}}
        self.header = Header(
            run_id="r", created="now", graph="tdp", operators=operators, task=task, context=CONTEXT, versions={}
        )
        self.lines, self.t, self.supersteps, self.nodes = [], 0.0, {}, {}
        self.own("reset", ("history", "outcomes"), dag={}, outcomes=[], history=[], revisions=0)
        self.draw("decompose", *nodes)

    def own(self, node, replaced=(), scope="", subtask="", **update):
        self.t, self.supersteps[scope] = self.t + 1, self.supersteps.get(scope, 0) + 1
        usage = Usage(node=node, calls=1, input_tokens=100, output_tokens=20, seconds=0.5)
        where = {"superstep": self.supersteps[scope], "scope": scope, "subtask": subtask}
        self.lines.append(
            Event(t=self.t, node=node, usage=usage, update=update, replaced=list(replaced), **where),
        )
        return self

    def draw(self, node, *nodes, **update):
        self.nodes = {one.id: one for one in nodes}
        return self.own(node, dag={"nodes": [one.as_json() for one in nodes]}, **{"notes": []} | update)

    def at(self, id_, node, replaced=(), **update):
        return self.own(node, replaced, f"solve:{id_}", id_, **update)

    def begin(self, id_, before=0):
        step = Step(action=Action(text="before"), digest="d").as_json()
        first = Observation(text="a room").as_json()
        logs = {"history": [step] * before} | ({} if self.certifies else {"turns": [], "outline": []})
        self.at(id_, "reset", ("history", *([] if self.certifies else ["turns"])), observation=first, **logs)
        return self if self.certifies else self.at(id_, "plan", outline=[f"look for {id_}", "hand it in"])

    def act(self, id_, action, answer="done", **progress):
        self.at(id_, "execute", action=Action(text=action).as_json(), thought="why")
        turn = Turn(thought="why", action=action, observation=answer).as_json()
        step = Step(action=Action(text=action), digest="d").as_json()
        self.at(id_, "act", observation=Observation(text=answer).as_json(), history=[step], turns=[turn])
        return self.at(id_, "supervise", progress=Progress(**progress).as_json())

    def certify(self, id_, position, text):
        certificate = Certificate(
            step=1, position=position, targets=(Predicate(text=text),), action=Action(text="go"), digest="d"
        )
        return self.at(id_, "certify", certificates=[certificate.as_json()], head=position + 1)

    def end(self, id_, status="completed", result="found"):
        outcome = Outcome(
            node=id_, status=status, result=result, ending="goal", observation=Observation(text="the end")
        )
        return self.own("solve", outcomes=[outcome.as_json()])

    def trajectory(self, ending=""):
        footer = [Footer(ending=ending, usage=Usage(node="all"))] if ending else []
        return assemble_trajectory([self.header, *self.lines, *footer])


def small(**options):
    nodes = Node(id="a", task="find A"), Node(id="b", task="find B"), Node(id="g", task="tell", needs=("a", "b"))
    return TDPTape(*nodes, **options)


def eventful(*, whole=False):
    """Two nodes at once, one replanned and one failed; a revision replaces what failed; the goal is at work.

    Where sub-tasks have run, the task graph is written whole, as earlier versions did, or as their statuses alone.
    """
    tape = small().begin("a").begin("b", before=3)
    tape.act("a", "search A", reason="another A", off_plan=True).at("a", "replan", outline=["look again"])
    tape.act("b", "search B", guidance="read on").act("b", "read B", status="failed", reason="no B")
    tape.act("a", "search A again", status="completed", result="A is 1")
    tape.end("b", "failed", "no B").end("a", result="A is 1")
    done = Node(id="a", task="find A", status="completed"), Node(id="b", task="find B", status="failed")
    nodes = {"nodes": [n.as_json() for n in (*done, tape.nodes["g"])]}
    tape.own("gather", dag=nodes if whole else {"statuses": {n.id: n.status for n in done}}, history=[], gathered=2)
    other, goal = Node(id="c", task="find C instead"), Node(id="g", task="tell A and C", needs=("a", "c"))
    tape.draw("revise", done[0], other, goal, revisions=1)
    return tape.begin("c").act("c", "search C")


def wide(count):
    nodes = [Node(id=f"n{n}", task=f"find {n}") for n in range(count - 1)]
    tape = TDPTape(*nodes, Node(id="goal", task="tell", needs=tuple(node.id for node in nodes)))
    for node in nodes[:100]:
        tape.begin(node.id).act(node.id, "search " * 40, "long answer " * 300).act(node.id, "read", "text " * 900)
    for node in nodes[:80]:
        tape.end(node.id)
    return tape
