"""Schemas are kept as long as their types, and no longer."""

import gc
import weakref

from pydantic import BaseModel, create_model

from certigraph.adapters.models.schemas import schema_of


class Answer(BaseModel):
    text: str


def test_a_schema_is_made_once():
    assert schema_of(Answer) is schema_of(Answer)


def test_a_type_that_was_made_for_one_question_is_forgotten_after_it():
    made = create_model("Made", __base__=Answer, number=(int, ...))
    assert list(schema_of(made)["properties"]) == ["text", "number"]
    left = weakref.ref(made)
    del made
    gc.collect()
    assert left() is None, "thousands of runs would keep thousands of types"
