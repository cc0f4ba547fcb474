"""Schemas are kept as long as their types, and hold what is the same in all requests first."""

import gc
import weakref
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, create_model

from certigraph.adapters.models.schemas import ONE_EACH, Offered, bounded_list, constant_schema, find_offered, schema_of


class Answer(BaseModel):
    text: str


def test_a_schema_is_made_once():
    assert schema_of(Answer) is schema_of(Answer)


@pytest.mark.slow
def test_a_type_that_was_made_for_one_question_is_forgotten_after_it():
    made = create_model("Made", __base__=Answer, number=(int, ...))
    assert list(schema_of(made)["properties"]) == ["text", "number"]
    left = weakref.ref(made)
    del made
    gc.collect()
    assert left() is None, "thousands of runs would keep thousands of types"


def test_what_differs_from_request_to_request_is_left_out_of_the_constant_schema():
    numbers: Any = (bounded_list(3, int, varies=True), ...)
    choice: Any = (Annotated[str, Offered(("Inn", "Lodge"))], ...)
    each: Any = (list[int], Field(default=[], min_length=2, max_length=2, description=ONE_EACH))
    Picked = create_model("Picked", kind=(Literal["a", "b"], ...), choice=choice, numbers=numbers, each=each)  # noqa: N806
    complete = schema_of(Picked)
    constant = constant_schema(complete)["properties"]
    assert complete["properties"]["choice"]["enum"] == ["Inn", "Lodge"]
    assert "enum" not in constant["choice"] and "maxItems" not in constant["numbers"]
    assert {"minItems", "maxItems"} <= complete["properties"]["each"].keys()
    assert not {"minItems", "maxItems"} & constant["each"].keys()
    assert constant["kind"]["enum"] == ["a", "b"]
    assert Picked.model_validate({"kind": "a", "choice": "- inn", "numbers": []}).choice == "Inn"
    with pytest.raises(ValidationError, match="not one of the 2 offered"):
        Picked.model_validate({"kind": "a", "choice": "Castle", "numbers": []})


def test_a_text_that_fits_several_offered_ones_is_none_of_them():
    assert find_offered("open DOOR", ["open door", "open Door"]) is None
    assert find_offered("open Door", ["open door", "open Door"]) == "open Door"
