"""A chat model that always answers, and what is heard of it through faults."""

from typing import Any

import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from certigraph.adapters.models.faults import FaultyModel

GOOD = '{"value": 1}'
CALL = {"name": "look", "args": {"at": "the sky"}, "id": "1", "type": "tool_call"}


class AnsweringModel(BaseChatModel):
    """Always answers GOOD, or with a call of a tool where it has tools."""

    model_name: str = "patient"
    requests: int = 0

    @property
    def _llm_type(self) -> str:
        return "patient"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[*tools], **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.requests += 1
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        calls = [CALL] if "tools" in kwargs else []
        message = AIMessage("" if calls else GOOD, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def faulty_model(faults: str) -> FaultyModel:
    return FaultyModel(chat=AnsweringModel(), faults=faults)


def reply_or_error(model: FaultyModel, question: str) -> str:
    try:
        return model.invoke(question).text
    except openai.OpenAIError as error:
        return type(error).__name__
