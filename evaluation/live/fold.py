"""What a watcher of a run wants to know, folded from trajectory lines as they come, at a few microseconds each."""

from typing import Any

from certigraph.evaluation.anatomy.folding import EXTENDED
from certigraph.evaluation.report.episodes import Episodes
from certigraph.evaluation.report.rated import Rating
from certigraph.evaluation.report.standing import standing, tally
from certigraph.evaluation.report.task_graph import TaskGraph
from certigraph.state.certified import predicates_in_force
from certigraph.state.records import Certificate, Invalidation
from certigraph.state.trajectory import Event, Footer, Header, Line, Resumed, assembled

USAGE = ("calls", "input_tokens", "output_tokens", "cached_tokens", "usd")


class Watched:
    """The run so far, the plain values of its lines."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.footer: Footer | None = None
        self.spent = dict.fromkeys(USAGE, 0.0)
        self._lines: list[Line] = []
        self._begin()

    def take(self, line: Line) -> None:
        """Fold one line. After a resume, what ran ahead of the checkpoint is undone; what it cost stays."""
        self._lines.append(line)
        if isinstance(line, Header):
            self.header = line
            self._begin()
        elif isinstance(line, Footer):
            self.footer = line
            # who began to watch at a resume was not shown what was superseded before
            self.spent = {name: max(spent, getattr(line.usage, name)) for name, spent in self.spent.items()}
        elif isinstance(line, Resumed):
            self._rewind()
        elif isinstance(line, Event):
            self._charge(line)
            self._apply(line)

    @property
    def target(self) -> str:
        """The text of the predicate at the head; empty where there is none."""
        return self.plan[self.head] if self.head < len(self.plan) else ""

    @property
    def steps(self) -> int:
        """World steps, those of earlier episodes and of all nodes of a task graph included."""
        return self.tasks.steps if self.tasks.drawn else self.episodes.steps

    def limit(self, name: str) -> int | None:
        """A limit that the run's header names."""
        limits = self.header.context.get("limits") if self.header else None
        recorded = limits.get(name) if isinstance(limits, dict) else None
        return recorded if isinstance(recorded, int) else None

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return int(self.spent["input_tokens"] + self.spent["output_tokens"])

    @property
    def whole(self) -> int:
        """Predicates that stand certified or were let pass, and those still to come."""
        return self.standing + self.passed + max(len(self.plan) - self.head, 0)

    def _begin(self) -> None:
        graph = self.header.graph if self.header else ""
        self.episodes, self.tasks, self.rating = Episodes(graph), TaskGraph(graph), Rating()
        self.plan: list[str] = []
        self.head = self.tried = self.replans = 0
        self.certificates: list[Certificate] = []
        self.invalidations: list[Invalidation] = []
        self.certified: dict[int, Certificate] = {}
        self.undone: set[int] = set()
        self.standing = self.passed = 0
        self.reason = self.before = ""
        self.extended = False
        self.cost: float | None = None

    def _rewind(self) -> None:
        kept = assembled(self._lines)
        self._begin()
        for event in kept.events:
            self._apply(event)
        for event in kept.superseded:
            self.tasks.charge(event)
        # calls that a kill left without an event are known only now
        self.spent = {name: max(spent, getattr(kept.usage, name)) for name, spent in self.spent.items()}
        self.footer = None

    def _charge(self, event: Event) -> None:
        for name in USAGE:
            self.spent[name] += getattr(event.usage, name)

    def _apply(self, event: Event) -> None:
        self.tasks.take(event)
        if event.scope:  # of a graph inside a node, whose plan and certificates are not the run's
            return
        self.episodes.take(event)
        self.rating.take(event)
        update: dict[str, Any] = {**(event.update or {})}
        if "plan" in update:
            self.plan = [predicate["text"] for predicate in update["plan"]]
        self.head = update.get("head", self.head)
        self.cost = update.get("observation", {}).get("data", {}).get("cost", self.cost)
        for attempt in update.get("attempts", ()):
            self.tried += 1
            self.reason = attempt["verdict"].get("reason", "") if not attempt["verdict"]["depth"] else ""
        for certificate in update.get("certificates", ()):
            self._certify(Certificate.model_validate(certificate))
        for lost in update.get("invalidations", ()):
            self.invalidations.append(Invalidation.model_validate(lost))
            self.undone.add(self.certificates[lost["certificate"]].position + lost["target"])
            self.standing -= 1
        if event.node == "replan":
            self.extended = self.before == EXTENDED
            self.tried, self.replans = 0, self.replans + ("plan" in update and not self.extended)
        if event.update is not None:
            self.before = event.node

    def _certify(self, certificate: Certificate) -> None:
        self.tried, self.reason = 0, ""
        self.certificates.append(certificate)
        self.certified |= dict.fromkeys(_positions(certificate), certificate)
        if certificate.restores is not None:
            self._return()
        elif certificate.forced:
            self.passed += certificate.depth
        else:
            self.standing += certificate.depth

    def _return(self) -> None:
        kept = standing(self.certificates)
        in_force = predicates_in_force(self.certificates, self.invalidations)
        self.standing, self.passed = len(in_force), tally(self.certificates).passed
        gone = {
            position
            for index, certificate in enumerate(self.certificates)
            if certificate.restores is None and not (certificate.forced and index in kept)
            for position in _positions(certificate)
        }
        self.undone = gone - {self.certificates[place.certificate].position + place.target for place in in_force}


def _positions(certificate: Certificate) -> range:
    return range(certificate.position, certificate.position + certificate.depth)
