"""The live BlocksWorld: a simulator that answers every action with the whole state in words."""

from certigraph.adapters.blocksworld.instances import Instance
from certigraph.adapters.blocksworld.strips import State, applicable, apply, unmet
from certigraph.adapters.blocksworld.wording import MOVES, denial, describe, move_text, parse_action
from certigraph.state.records import Action, Observation, Scores


class BlocksWorldEnvironment:
    """One episode. It is done, with reward 1.0, whenever the goal holds; until then every reward is 0.0."""

    concurrent = False

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.state: State = instance.state

    def reset(self) -> Observation:
        """Back to the initial state."""
        self.state = self.instance.state
        return self._observation()

    def step(self, action: Action) -> Observation:
        """Move one block. What is no move, or not applicable, is refused with the reason, and changes nothing."""
        move = parse_action(action.text)
        if move is None:
            return self._observation(refusal=f"{action.text[:100]!r} is no action; say {_TEMPLATES}.")
        if missing := unmet(self.state, move):
            return self._observation(refusal=f"Cannot {move_text(move)}: {' and '.join(map(denial, missing))}.")
        self.state = apply(self.state, move)
        return self._observation()

    def view(self) -> str:
        """The whole state in words."""
        return describe(self.state)

    def admissible(self) -> list[str]:
        """All applicable actions, in words."""
        return [move_text(move) for move in applicable(self.state)]

    def score(self) -> Scores:
        """1.0 when the goal holds now; part `goal_facts` is the fraction of the goal's facts that hold."""
        held = sum(fact in self.state for fact in self.instance.goal)
        return Scores(
            value=float(self.instance.solved_by(self.state)), parts={"goal_facts": held / len(self.instance.goal)}
        )

    def close(self) -> None:
        """Nothing to release."""

    def _observation(self, refusal: str = "") -> Observation:
        done = self.instance.solved_by(self.state)
        text = f"{refusal} {describe(self.state)}".lstrip()
        return Observation(text=text, accepted=not refusal, reward=float(done), done=done, solved=done)


_TEMPLATES = ", ".join(text.format("X", "Y") for text in MOVES.values())
