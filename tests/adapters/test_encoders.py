"""Tests of `adapters.encoders`."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.processes.children import run_code

from certigraph.adapters import encoders
from certigraph.adapters.encoders import (
    QUANTISED_WEIGHTS,
    WEIGHTS_PACKAGE,
    QuantisedEncoder,
    SentenceEncoder,
    find_encoder,
    find_weights,
    install_advice,
    load_encoder,
)
from certigraph.state.defaults import DEFAULT_ENCODER, MATCHING_ENCODER
from certigraph.state.endings import Fault


@pytest.fixture
def _searched_afresh():
    encoders._cached_encoder.cache_clear()
    yield
    encoders._cached_encoder.cache_clear()


def without(monkeypatch, *missing):
    found = encoders.find_spec
    monkeypatch.setattr(encoders, "find_spec", lambda name: None if name in missing else found(name))


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
    monkeypatch.setattr(encoders, "load_model", lambda folder, name, remedy: loads.append(folder) or model)
    return SentenceEncoder(tmp_path, DEFAULT_ENCODER, install_advice()), model, loads


@pytest.mark.usefixtures("_searched_afresh")
def test_without_the_library_or_the_weights_there_is_none(monkeypatch):
    for name, packages in (
        (MATCHING_ENCODER, ("onnxruntime", QUANTISED_WEIGHTS)),
        (DEFAULT_ENCODER, ("sentence_transformers",)),
    ):
        for package in packages:
            with monkeypatch.context() as patch:
                without(patch, package)
                assert find_encoder(name) is None
            encoders._cached_encoder.cache_clear()
    without(monkeypatch, WEIGHTS_PACKAGE, "huggingface_hub")  # which has the tokenizer of both
    for name in (MATCHING_ENCODER, DEFAULT_ENCODER):
        assert find_encoder(name) is None
        assert install_advice(name) == "pip install 'certigraph[embeddings]'"


@pytest.mark.usefixtures("_searched_afresh")
def test_the_model_is_loaded_by_the_first_text_and_once(counting):
    source, model, loads = counting
    assert loads == []
    with ThreadPoolExecutor(8) as pool:
        shapes = {v.shape for v in pool.map(source.encode, [["a", "bb"]] * 8)}
    assert shapes == {(2, 384)} and len(loads) == 1 and sorted(model.texts) == ["a", "bb"]


@pytest.mark.usefixtures("_searched_afresh")
def test_the_least_recently_used_is_forgotten(counting, monkeypatch):
    source, model, _ = counting
    monkeypatch.setattr(encoders, "MAX_CACHED_VECTORS", 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        source.encode([text])
    assert model.texts == ["a", "b", "c", "b"]
    assert source.encode(["d", "e", "f", "gg"])[:, 0].tolist() == [1, 1, 1, 2]


@pytest.mark.usefixtures("_searched_afresh")
@pytest.mark.slow
class TestMiniLM:
    @pytest.mark.parametrize("name", [MATCHING_ENCODER, DEFAULT_ENCODER])
    def test_vectors_have_length_one_and_know_what_is_meant(self, name):
        vectors = find_encoder(name).encode(
            ["The cat sat on the mat.", "A feline rested on a rug.", "Stock markets fell."]
        )
        assert vectors.shape == (3, 384) and vectors.dtype == "float32"
        cosines = vectors @ vectors.T
        assert cosines.diagonal() == pytest.approx(1, abs=1e-5)
        assert cosines[0, 1] == pytest.approx(0.55, abs=0.02) and cosines[0, 2] < 0.1

    def test_it_needs_no_network_prints_nothing_and_leaves_the_environment(self):
        code = (
            "import os, socket\n"
            "def refuse(*args, **options): raise AssertionError('network')\n"
            "socket.socket.connect = socket.getaddrinfo = refuse\n"
            "from certigraph.adapters.encoders import find_encoder\n"
            f"before, found = dict(os.environ), find_encoder({MATCHING_ENCODER!r})\n"
            "import sys; assert not {'torch', 'numpy', 'sentence_transformers'} & set(sys.modules)\n"
            f"assert found is find_encoder({MATCHING_ENCODER!r}) and found.encode(['pot']).shape == (1, 384)\n"
            "assert 'torch' not in sys.modules\n"
            "assert not any(name.startswith('HF_') for name in set(os.environ) - set(before))"
        )
        done = run_code(code)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def test_weights_that_are_none_are_a_fault_with_the_command(self, tmp_path):
        for source in find_weights(DEFAULT_ENCODER).rglob("*.json"):
            target = tmp_path / source.relative_to(find_weights(DEFAULT_ENCODER))
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
        (tmp_path / "model.safetensors").write_bytes(b"no tensors")
        with pytest.raises(Fault, match="cannot load all-MiniLM-L6-v2") as fault:
            SentenceEncoder(tmp_path, DEFAULT_ENCODER, install_advice()).encode(["pot"])
        assert install_advice() in str(fault.value) and fault.value.ending == "error:model"


@pytest.mark.slow
class TestQuantised:
    @pytest.mark.long
    def test_its_vectors_are_those_of_the_whole_model_whatever_they_are_encoded_with(self):
        texts = ["pot", "the boiling point of water in a metal pot", "word " * 400, "", "éà 漢字", *map(str, range(70))]
        few, whole = load_encoder(MATCHING_ENCODER), load_encoder(DEFAULT_ENCODER)
        vectors = few.encode_once(texts)
        assert vectors.shape == (len(texts), 384)
        assert ((vectors * whole.encode_once(texts)).sum(axis=1) > 0.99).all()
        assert (vectors == np.concatenate([few.encode_once([text]) for text in texts])).all()

    def test_a_file_of_other_weights_is_a_fault_with_the_command(self, tmp_path):
        (tmp_path / "model.onnx").write_bytes(b"no model")
        encoder = QuantisedEncoder(tmp_path / "model.onnx", tmp_path / "tokenizer.json", "mine", install_advice())
        with pytest.raises(Fault, match=r"cannot load mine from .*sha256 is .*run pip install"):
            encoder.encode(["pot"])


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
    monkeypatch.setattr(encoders, "load_model", lambda folder, name, remedy: models[name])
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
