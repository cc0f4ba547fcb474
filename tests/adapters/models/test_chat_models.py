"""Models of LangChain's providers, by name."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

import certigraph
from certigraph import Budget, Context, Fault, UnknownName
from certigraph.adapters.models import chat_models


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The models that LangChain was asked to create."""
    langchain = pytest.importorskip("langchain.chat_models")
    names: list[tuple[str, dict[str, Any]]] = []

    def create(name: str, **settings: Any) -> FakeListChatModel:
        names.append((name, settings))
        return FakeListChatModel(responses=["no action"])

    monkeypatch.setattr(langchain, "init_chat_model", create)
    chat_models._provider_model.cache_clear()
    return names


def test_a_run_asks_the_model_of_a_provider(created: list[tuple[str, dict[str, Any]]], tmp_path: Path) -> None:
    context = Context(model="anthropic:claude-test", budget=Budget(calls=3))
    result = certigraph.run("react", "blocksworld", "4-0", context=context, out=tmp_path, on_error="ignore")
    assert [name for name, _ in created] == ["anthropic:claude-test"]
    assert result.usage.calls == 3


def test_a_missing_package_is_one_line_with_its_name() -> None:
    with pytest.raises(Fault, match=r"mistralai:small cannot be used: .*langchain-mistralai"):
        chat_models.chat_model("mistralai:small")


@pytest.mark.parametrize("name", ["anthropic:", "nobody:model", "anthropic"])
def test_other_names_are_refused_with_the_forms(name: str) -> None:
    with pytest.raises(UnknownName, match="PROVIDER:NAME"):
        chat_models.check_model_name(name)
