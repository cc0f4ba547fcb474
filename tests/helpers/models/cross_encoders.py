"""Cross-encoders without trained weights: a folder that looks like one, a scorer by rule, and a tiny random one."""

import json

import numpy as np

from certigraph.adapters.retrieval import reranker


class WordCounter:
    """Scores a pair by how often the first word of the query is in the text; lists the pairs that it read."""

    def __init__(self):
        self.batches = []

    def predict(self, pairs, **options):
        self.batches.append(list(pairs))
        return np.array([text.lower().count(query.lower().split()[0]) for query, text in pairs], dtype=np.float32)

    @property
    def texts(self):
        return [text for batch in self.batches for _, text in batch]


def looking_like_one(folder, *, weights=b"weights", architecture="BertForSequenceClassification"):
    """Write the files by which a cross-encoder is recognised, and return the folder's name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    (folder / "model.safetensors").write_bytes(weights)
    return str(folder)


def counting_words(monkeypatch):
    """Let every cross-encoder be a `WordCounter`, found without the library, and return it."""
    model = WordCounter()
    reranker._cached_reranker.cache_clear()
    monkeypatch.setattr(reranker, "find_spec", lambda name: True)
    monkeypatch.setattr(reranker, "load_model", lambda *arguments: model)
    return model


def tiny_random_one(folder, *, labels=1, seed=0):
    """Save a randomly initialised cross-encoder of 16 dimensions over ten words, and return the folder's name."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "boats", "bread", "stone", "sea", "."]
    (folder / "vocab.txt").write_text("\n".join(words))
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    size["initializer_range"] = 0.5  # far more than usual, so that scores differ
    torch.manual_seed(seed)
    BertForSequenceClassification(BertConfig(vocab_size=len(words), num_labels=labels, **size)).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)
