"""A model that searches the web itself: its citations are the results (Chat Completions with web_search_options)."""

import os
import time
from collections.abc import Iterator

from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from certigraph.adapters.models.chat import TIMEOUT, chat_model
from certigraph.adapters.models.meter import Call, current_meter
from certigraph.adapters.models.price_table import Price, cached_tokens
from certigraph.adapters.models.prices import price_of, usd
from certigraph.adapters.models.token_counts import usage_of
from certigraph.adapters.web.completions import Completion
from certigraph.adapters.web.provider import HttpProvider
from certigraph.adapters.web.requests import Sleep
from certigraph.adapters.web.results import Found
from certigraph.adapters.web.service import Service

ENDPOINT = "CERTIGRAPH_BASE_URL"
PROMPT = """Search the web for: {query}

Name at most {k} different pages that help most. Write one sentence for each, with the facts that it gives about this,
and cite it."""


class Asked(HttpProvider):
    """Asks a model such as `gpt-4o-search-preview` at OpenAI, or the endpoint at CERTIGRAPH_BASE_URL.

    The key is in OPENAI_API_KEY; another endpoint may need none. Results are the pages that the model cites, with the
    sentence it cites each for. A search raises LimitReached, too, where the run's budget has no room for another call.

    Raises:
        Fault: ("environment") there is no key, or what is set as address is none.
    """

    def __init__(self, model: str, *, sleep: Sleep = time.sleep) -> None:
        self._model, self._label = model, f"openai:{model}"
        service = Service(
            name=self._label,
            variable=ENDPOINT,
            home="https://api.openai.com/v1",
            path="/chat/completions",
            key="OPENAI_API_KEY",
            key_page="https://platform.openai.com/api-keys",
        )
        needed = not os.environ.get(ENDPOINT) or os.environ.get(service.key)
        headers = {"Authorization": f"Bearer {service.secret()}"} if needed else {}
        super().__init__(service, headers, timeout=TIMEOUT, sleep=sleep)

    def _found(self, words: str, k: int) -> Iterator[Found]:
        prompt = PROMPT.format(query=words, k=k)
        messages = [{"role": "user", "content": prompt}]
        body: dict[str, object] = {"model": self._model, "messages": messages, "web_search_options": {}}
        return self._completion(body, prompt).found()

    def _completion(self, body: dict[str, object], prompt: str) -> Completion:
        """The answer; every request is a call of the budget, one that the service was too busy for as well."""
        call = Call(role="search", model=self._model, schema_name="citations")
        tried = 1
        while True:
            started = time.perf_counter()
            with current_meter().calling(call, self._price(), prompt_tokens=_tokens(prompt)) as opened:
                reply = self._requests.request("POST", json=body, headers=self._headers)
                taken = {"seconds": time.perf_counter() - started}
                if not self._requests.waits(reply, tried):
                    completion = self._requests.read(reply, Completion)
                    opened.settle(call.model_copy(update=self._bill(completion, prompt) | taken))
                    return completion
                opened.settle(call.model_copy(update=taken | {"failure": f"status {reply.status}"}))
            self._requests.wait(reply, tried)
            tried += 1

    def _bill(self, completion: Completion, prompt: str) -> dict[str, float]:
        used = usage_of(completion.used(), [HumanMessage(prompt)], completion.text)
        return {
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
            "cached_tokens": cached_tokens(used),
            "usd": usd(self._price(), used),
        }

    def _price(self) -> Price | None:
        return price_of(chat_model(self._label))


def _tokens(prompt: str) -> int:
    return count_tokens_approximately([HumanMessage(prompt)])
