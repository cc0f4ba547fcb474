"""Language models tuned to rate trajectories, as `certigraph rewards tune` writes them (StateFactory, appendix C.2)."""

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.state.endings import Fault
from certigraph.state.rewarding import Seen

BASE = "Qwen/Qwen2.5-1.5B"
"""What is tuned where no other model is named."""

ADAPTERS = "adapter_config.json"
"""The file by which a folder is known to hold such a model."""

HOW = "certigraph rewards tune DATA --out tuned, then rate=supervised:head=tuned"


class Tuned(NamedTuple):
    """A model with its adapters and head, and what reads texts for it."""

    model: Any
    tokenizer: Any

    def reward(self, goal: str, steps: Sequence[Seen]) -> float:
        """The reward after the last of the steps, in (0, 1): the sigmoid of the score, whose offset training ties to 0.

        Of a text that is longer than those in training its end is read.
        """
        torch = import_module("torch")
        given = self.tokenizer(flattened(goal, steps), truncation=True, return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            return float(torch.sigmoid(self.model(**given).logits[0, 0].float()))


def flattened(goal: str, steps: Sequence[Seen]) -> str:
    """A prefix of a trajectory as one text, in the form of appendix C.2.1."""
    told = (f"<ACTION> {step.action} </ACTION> <STATE> {step.observation} </STATE>" for step in steps)
    return " ".join([f"<GOAL> {goal} </GOAL> ---", *told])


@lru_cache(maxsize=1)
def load_tuned(folder: Path) -> Tuned:
    """The model of a folder, loaded once, on the GPU where there is one.

    Raises:
        Fault: ("model") a library is missing, or the folder or its base model cannot be loaded.
    """
    equipped_for_tuning()
    torch, transformers, peft = map(import_module, ("torch", "transformers", "peft"))
    gpu = torch.cuda.is_available()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = peft.AutoPeftModelForSequenceClassification.from_pretrained(
            folder, num_labels=1, local_files_only=True, dtype=torch.bfloat16 if gpu else torch.float32
        )
    except (OSError, ValueError) as error:
        raise Fault("model", f"{folder} holds no tuned reward model ({error!r:.120}): {HOW}") from error
    return Tuned(model.to("cuda" if gpu else "cpu").eval(), tokenizer)


def equipped_for_tuning() -> None:
    """Make sure that the libraries are there. Raises Fault with the command that brings those that are missing."""
    if missing := [name for name in ("torch", "transformers", "peft") if find_spec(name) is None]:
        raise Fault("model", f"tuned models need {', '.join(missing)}: pip install 'certigraph[lora]'")
