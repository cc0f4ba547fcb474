import json

import numpy as np
import pytest

from certigraph.adapters import matching
from certigraph.adapters.matching import NAME, SentenceEncoder, encoder, how_to_install, needed_encoder, weights
from certigraph.state.records import Fault


@pytest.fixture(autouse=True)
def _searched_afresh():
    matching._made.cache_clear()
    yield
    matching._made.cache_clear()


def test_the_default_encoder_is_one_object_under_both_ways_to_name_it():
    assert encoder() is encoder(NAME) and (encoder() is None or needed_encoder() is encoder())


@pytest.mark.parametrize(
    "name", ["no-such-model", "owner/no-such-model", "", "a/b/c", "../secret", "not a name", "/nowhere"]
)
def test_an_unknown_encoder_is_a_fault_of_one_line_with_the_fix(name):
    with pytest.raises(Fault) as fault:
        needed_encoder(name)
    said = str(fault.value)
    assert fault.value.ending == "error:model" and "\n" not in said
    assert repr(name) in said and "hf download" in said and "folder" in said


@pytest.mark.parametrize(("name", "repository"), [("all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2"),
                                                  ("BAAI/bge-base-en-v1.5", "BAAI/bge-base-en-v1.5")])  # fmt: skip
def test_the_command_names_the_repository(name, repository):
    assert f"hf download {repository}" in how_to_install(name)


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
    assert weights("BAAI/bge-base-en-v1.5") is None
    (snapshot / file).touch()
    assert weights("BAAI/bge-base-en-v1.5") == snapshot


def test_a_folder_is_an_encoder_where_it_holds_a_sentence_transformers_model(tmp_path):
    assert weights(str(tmp_path)) is None
    (tmp_path / "modules.json").write_text("[]")
    assert weights(str(tmp_path)) == tmp_path


def test_each_encoder_has_a_cache_of_its_own_and_its_own_width(monkeypatch, tmp_path):
    class Model:
        def __init__(self, width):
            self.width, self.texts = width, []

        def encode(self, texts, **options):
            self.texts += texts
            return np.ones((len(texts), self.width), dtype=np.float64)

    models = {"narrow": Model(2), "wide": Model(5)}
    monkeypatch.setattr(matching, "_loaded", lambda folder, name, remedy: models[name])
    made = {name: SentenceEncoder(tmp_path, name, "") for name in models}
    for name, width in (("narrow", 2), ("wide", 5), ("narrow", 2)):
        vectors = made[name].encode(["pot", "pan", "pot"])
        assert vectors.shape == (3, width) and vectors.dtype == np.float32
    assert models["narrow"].texts == models["wide"].texts == ["pot", "pan"]


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
    vectors = needed_encoder(str(tmp_path / "tiny")).encode(["pot", "pan"])
    assert vectors.shape == (2, 16) and np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_a_warm_step_is_routed_in_under_five_milliseconds():
    from certigraph.evaluation.bench import bench_rewards

    assert bench_rewards(0).routing_p50 < 5
