"""Every reader of text takes whatever comes: it returns, or raises what its documentation names, and soon."""

import pytest
from fuzzing.checks import FindingError, check
from fuzzing.known_failures import KNOWN_FAILURES
from fuzzing.mutations import near_valid
from fuzzing.target import Target, of_text
from fuzzing.targets import TARGETS
from hypothesis import HealthCheck, example, given, settings

SLOW = ("answer.locomo", "questions.locomo", "world.textworld")
"""They load a stemmer or make a game."""

NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in sorted(TARGETS)]
QUICK = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_only_documented_errors_come_out(name: str) -> None:
    target = TARGETS[name]
    assert target.seeds
    for seed in target.seeds:
        target.read(seed)  # a seed that is refused would leave the reader untried

    @QUICK
    @given(near_valid(target.seeds))
    def holds(data: bytes) -> None:
        check(target, data)

    for data in KNOWN_FAILURES.get(name, ()):
        holds = example(data)(holds)
    holds()


def test_what_was_found_is_of_a_target() -> None:
    assert set(KNOWN_FAILURES) <= set(TARGETS)


def _fails(text: str) -> None:
    if "\ud800" not in text and text.count("[") > 2_000:
        raise RecursionError


@pytest.mark.parametrize(("read", "message"), [(_fails, "raised RecursionError"), (int, "raised ValueError")])
def test_an_undocumented_error_is_a_finding_with_its_input(read, message) -> None:
    target = Target("bad", of_text(read), (), (b"1",))
    with pytest.raises(FindingError, match=message):
        check(target, b"[" * 3_000)
    check(target._replace(errors=(RecursionError, ValueError)), b"[" * 3_000)


def test_what_takes_too_long_is_a_finding() -> None:
    with pytest.raises(FindingError, match="are allowed"):
        check(Target("slow", of_text(sorted)), b"a" * 30_000, patience=1e-9)
