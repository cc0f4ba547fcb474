"""Specs as text: what `str` writes is what the command line reads, with the types of all arguments."""

import inspect
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certigraph.graphs.catalogue import OPERATORS
from certigraph.nodes.slots import build_operator, spec_of
from certigraph.nodes.specs import MAX_NESTED_SPECS, Spec, parse_spec, split_swaps
from certigraph.runtime.registry import parse_swap
from certigraph.state.endings import UnknownName

FACTORIES = sorted(name for name, make in OPERATORS.items() if getattr(make, "makes_operator", False))
OWN = ("mine.ops:make", "mine:Class.method", "ops:make.<locals>.gate")

MISLEADING = [
    *("", "1", "1.0", "-0", "1e5", "NaN", "true", "True", "null", "None", "none", "native", "Infinity"),
    *("a, b", "a,b", "k=v", "=", "a:b", ":", '"', '"a"', "it's", "(capped)", "(", ")", "[1]", "[", '{"a": 1}', "}"),
    *("a+b=c", "+", "1e+16", " a ", "a b", "\n", "\\", "\u2028", "Größe", "capped:depth=1", "openai:gpt?effort=low"),
]
"""Texts that are not read as themselves unless they are quoted, or that contain what separates arguments."""

texts = st.sampled_from(MISLEADING) | st.text(max_size=8)
numbers = st.integers() | st.floats()
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
keys = st.from_regex(r"[a-z_]{1,4}", fullmatch=True)
names = st.sampled_from([*FACTORIES, *OWN, "always_pass", "validate", "unknown"])


def specs_of_arguments(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
    return st.builds(Spec, name=names, args=st.dictionaries(keys, inner | json_values, max_size=3))


specs = st.recursive(specs_of_arguments(st.nothing()), specs_of_arguments, max_leaves=4)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(specs)
def test_every_spec_is_read_as_it_was_written(spec: Spec):
    assert repr(parse_swap(f"slot={spec}")) == repr(("slot", spec))  # 1, 1.0 and True are equal, but not alike


@given(specs, specs)
def test_joined_swaps_are_split_between_the_swaps_only(one: Spec, other: Spec):
    assert split_swaps(f"a={one}+b={other}") == [f"a={one}", f"b={other}"]


# Certigraph's own operators


def arguments_like(hint: Any) -> st.SearchStrategy[Any]:
    """Arguments of the types in an annotation; any other type than these is an operator."""
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    kinds = {bool: st.booleans(), int: st.integers(), float: st.floats(), str: texts}
    found = [kinds[kind] for kind in (hint, *get_args(hint)) if isinstance(kind, type) and kind in kinds]
    optional = [st.none()] if type(None) in get_args(hint) else []
    operators = st.sampled_from([Spec(name="no_gate"), Spec(name="votes", args={"k": 1}), Spec(name=OWN[0])])
    return st.one_of(*found, *optional) if found else st.one_of(operators, *optional)


@pytest.mark.parametrize("name", FACTORIES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_arguments_of_every_operator_keep_their_types(name: str, data: st.DataObject):
    hints = get_type_hints(inspect.unwrap(OPERATORS[name]))
    taken = [key for key in inspect.signature(OPERATORS[name]).parameters if key != "operators"]
    spec = Spec(name=name, args={key: data.draw(arguments_like(hints[key]), key) for key in taken})
    assert repr(parse_swap(f"slot={spec}")) == repr(("slot", spec))


@pytest.mark.parametrize("name", FACTORIES)
def test_every_operator_is_built_from_its_text(name: str):
    parameters = [p for p in inspect.signature(OPERATORS[name]).parameters.values() if p.kind is not p.VAR_KEYWORD]
    given_ones = {p.name: OPERATORS["no_gate"] if p.default is p.empty else p.default for p in parameters}
    spec = spec_of(OPERATORS[name](**given_ones))
    assert len(spec.args) == len(parameters)
    _, again = parse_swap(f"slot={spec}")
    assert repr(spec_of(build_operator(again, OPERATORS))) == repr(spec)


# The notation


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("always_pass", Spec(name="always_pass")),
        ("mine.ops:gate", Spec(name="mine.ops:gate")),
        ("capped:depth=1", Spec(name="capped", args={"depth": 1})),
        ("module:make:depth=2", Spec(name="module:make", args={"depth": 2})),
        ("m:x=True,y=False,z=None", Spec(name="m", args={"x": True, "y": False, "z": None})),
        ("m:x=true,y=false,z=null", Spec(name="m", args={"x": True, "y": False, "z": None})),
        ('m:x="True",y="1",z=""', Spec(name="m", args={"x": "True", "y": "1", "z": ""})),
        ("m:x=-1,y=-0.5,z=1.0", Spec(name="m", args={"x": -1, "y": -0.5, "z": 1.0})),
        ("m:x=,y=a b,z=k=v", Spec(name="m", args={"x": "", "y": "a b", "z": "k=v"})),
        ("m:x=openai:gpt-4o,y=f(a),z=4-0,", Spec(name="m", args={"x": "openai:gpt-4o", "y": "f(a)", "z": "4-0"})),
        ("m: x = 1, y = (n: z = 2 )", Spec(name="m", args={"x": 1, "y": Spec(name="n", args={"z": 2})})),
        ('m:x=[1,"a,b"],y={"k":[]}', Spec(name="m", args={"x": [1, "a,b"], "y": {"k": []}})),
        ("m:x=no_gate,y=(mine:gate)", Spec(name="m", args={"x": Spec(name="no_gate"), "y": Spec(name="mine:gate")})),
        (
            "either:one=gap_gate,other=(shadow:gate=(exhaustion_gate:patience=3))",
            Spec(
                name="either",
                args={
                    "one": Spec(name="gap_gate"),
                    "other": Spec(name="shadow", args={"gate": Spec(name="exhaustion_gate", args={"patience": 3})}),
                },
            ),
        ),
    ],
)
def test_what_a_command_line_says(text: str, spec: Spec):
    assert repr(parse_swap(f"slot={text}")) == repr(("slot", spec))


@pytest.mark.parametrize(
    "text",
    [
        *("m:x=a,b", "m:x=1,y", "m:x=(n:y=1", "m:x=(n)y", 'm:x="a"b', 'm:x="a', "m:x=[1", "m,n"),
        *("m" + ":x=(m" * (MAX_NESTED_SPECS + 1), "m:x=" + "[" * 10_000),
    ],
)
def test_what_cannot_be_read_is_refused(text: str):
    with pytest.raises(UnknownName):
        parse_spec(text)
