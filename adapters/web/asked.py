"""A model that searches the web itself: its citations are the results (Chat Completions with web_search_options)."""

import os
import time
from collections.abc import Iterator

from certigraph.adapters.models.chat import TIMEOUT, chat_model
from certigraph.adapters.models.meter import Call, current_meter
from certigraph.adapters.models.price_table import Price, cached_tokens
from certigraph.adapters.models.prices import price_of, usd
from certigraph.adapters.web.completions import Completion
from certigraph.adapters.web.provider import HttpProvider
from certigraph.adapters.web.requests import Sleep
from certigraph.adapters.web.results import Found
from certigraph.adapters.web.service import Service
from certigraph.state.endings import Fault

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
        messages = [{"role": "user", "content": PROMPT.format(query=words, k=k)}]
        return self._completion({"model": self._model, "messages": messages, "web_search_options": {}}).found()

    def _completion(self, body: dict[str, object]) -> Completion:
        meter, started = current_meter(), time.perf_counter()
        call = Call(role="search", model=self._model, schema_name="citations")
        with meter.calling(self._model, self._price()):
            try:
                completion = self._requests.post(Completion, body, self._headers)
            except Fault as lost:
                meter.charge(call.model_copy(update={"failure": str(lost), "seconds": time.perf_counter() - started}))
                raise
        meter.charge(call.model_copy(update=self._bill(completion) | {"seconds": time.perf_counter() - started}))
        return completion

    def _bill(self, completion: Completion) -> dict[str, float]:
        used = completion.used()
        return {
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
            "cached_tokens": cached_tokens(used),
            "usd": usd(self._price(), used),
        }

    def _price(self) -> Price | None:
        return price_of(chat_model(self._label))
