"""BM25 over the passages that come with a question."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from certigraph.adapters.retrieval.bm25 import Pool
from certigraph.state.records import Fault, UnknownName
from certigraph.state.search import Passage

ALIEN = Passage(id="1", title="Alien (film)", text="A crew meets a creature in space.")
SPACE = Passage(id="2", title="", text="Space films about a crew in space and their space ships.")
RIVER = Passage(id="3", title="Loire", text="A river of France.")
EMPTY = Passage(id="4", title="", text="")
OTHERS = [Passage(id=f"o{n}", title="", text=f"Something else, number {n}.") for n in range(6)]
FILMS = [ALIEN, SPACE, RIVER, EMPTY, *OTHERS]


def found(pool: Pool, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in pool.search(query, k)]


def test_only_passages_that_share_a_term_are_found_the_best_first():
    pool = Pool(FILMS, boost_titles=False)
    hits = pool.search("the crew of a space ship", 10)
    assert [hit.passage for hit in hits] == [SPACE, ALIEN]
    assert hits[0].score > hits[1].score
    assert found(pool, "the crew of a space ship", 1) == ["2"]


def test_a_passage_whose_title_is_named_comes_first():
    query = "In space films, what does the crew of Alien meet?"
    assert found(Pool(FILMS, boost_titles=False), query)[0] == "2"
    assert found(Pool(FILMS), query)[0] == "1"


@pytest.mark.parametrize("query", ["", "who is the", "?!", "zebra"])
def test_a_query_without_a_term_of_the_pool_finds_nothing(query: str):
    assert found(Pool(FILMS), query) == []


@pytest.mark.parametrize("k", [0, -1])
def test_no_passages_are_found_where_none_are_asked_for(k: int):
    assert found(Pool(FILMS), "space", k) == []


def test_a_pool_of_one_passage_finds_it():
    assert found(Pool([ALIEN]), "a creature") == ["1"]


def test_equal_passages_stay_in_order():
    same = [Passage(id=id, title="", text="equal text") for id in "zyxabc"]
    assert found(Pool([*same, *FILMS]), "equal") == list("zyxabc")


def test_a_passage_is_had_by_its_id_and_an_unknown_one_lists_those_there_are():
    assert Pool(FILMS).passage("3") == RIVER
    with pytest.raises(UnknownName, match=r"'9'.*1, 2, 3, 4, o0"):
        Pool(FILMS).passage("9")


@pytest.mark.parametrize("passages", [[], [EMPTY], [Passage(id="5", title="The", text="who?")]])
def test_a_pool_with_nothing_to_search_is_refused(passages: list[Passage]):
    with pytest.raises(Fault, match=r"without a term|no passages to search"):
        Pool(passages)


def test_ids_given_twice_are_refused():
    with pytest.raises(Fault, match="'1'"):
        Pool([ALIEN, RIVER, ALIEN])


def test_many_threads_search_one_pool():
    pool = Pool(FILMS)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: found(pool, "space crew"), range(64))) == [["2", "1"]] * 64
