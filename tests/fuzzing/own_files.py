"""Readers of files that certigraph writes itself, which a crash, a disk or another program may have spoiled."""

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from fuzzing.target import Target, of_file, of_folder, of_text

from certigraph.adapters.encoders import VECTOR_WIDTH
from certigraph.adapters.retrieval.dense import _open_vectors
from certigraph.adapters.retrieval.index import BuildJournal, Manifest, is_resumable, read_manifest
from certigraph.adapters.retrieval.reranker import _check_architecture
from certigraph.adapters.rewards import Head, HeadsMetadata, load_heads
from certigraph.benchmarks.alfworld.benchmark import _cache_key
from certigraph.benchmarks.rewardprediction.dataset import read_pairs
from certigraph.evaluation.comparison import read_plan
from certigraph.evaluation.inspect_runs import RunJournal as Samples
from certigraph.evaluation.inspect_runs import SampleRun
from certigraph.evaluation.judges import read_judgements
from certigraph.runtime.files import RunsManifest, find_manifest
from certigraph.runtime.registry import load_settings
from certigraph.runtime.run import _names_run, find_journals
from certigraph.state.endings import Fault
from certigraph.studies.cgdp_scores import choose_rubric
from certigraph.studies.reward_data import read_counts
from certigraph.studies.rewards import read_rated_pairs

PLAN: dict[str, Any] = {
    **dict.fromkeys(("benchmark", "model", "data", "machine", "created"), "b"),
    **{part: {} for part in ("roles", "budget", "limits", "versions")},
    "methods": [{"name": "sdp", "graph": "sdp", "operators": {}}],
    "tasks": ["4-0"],
}
JUDGED: dict[str, Any] = {
    **dict.fromkeys(("run", "method", "benchmark", "task", "rubric", "judge", "answer"), "r"),
    **{"trial": 0, "score": 50.0, "parts": {}},
}
RATED: dict[str, Any] = {
    **dict.fromkeys(("predictor", "pair", "domain", "digest"), "r"),
    **{"rewards": [[0.5]], "figures": {}, "seconds": 1},
}
COUNT: dict[str, Any] = {"domain": "blocksworld", "published": 1, "seed": 0, "splits": ["a"]}
EPISODE: dict[str, Any] = {
    "goal_description": "g",
    "trajectory": [{"action": "", "observation": "o", "reward": {"raw": 0}}],
}
PAIR: dict[str, Any] = {"domain": "d", "task": "t", "positive": EPISODE, "negatives": [EPISODE]}
MANIFEST = Manifest(source="s", passages=1, sha256="00", engine="tantivy")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: object) -> bytes:
    return b"".join(_json(value) + b"\n" for value in values)


def _heads() -> bytes:
    """A file of one reward head."""
    card = HeadsMetadata(encoder="e", domains=("d",), folds=1, tasks=1, seed=0)
    arrays = {f"0.{name}": numpy.zeros(2, dtype=numpy.float32) for name in Head._fields}
    file = io.BytesIO()
    numpy.savez(file, card=numpy.array(card.model_dump_json()), **arrays)
    return file.getvalue()


def _vectors() -> bytes:
    """A file of one passage's vector."""
    file = io.BytesIO()
    numpy.save(file, numpy.zeros((1, VECTOR_WIDTH), dtype=numpy.float32))
    return file.getvalue()


def _begun(folder: Path) -> object:
    return is_resumable(folder), BuildJournal(folder).digest_at(3)


def _samples(folder: Path) -> object:
    return Samples(folder, "runs")._latest_folder(SampleRun("a", 0))


TARGETS = (
    Target("own.plan", of_folder(read_plan, "comparison.json"), (Fault,), (_json(PLAN),)),
    Target("own.local", of_folder(load_settings, "local.json"), (Fault,), (b"{}", b'{"model": "local", "budget": {}}')),
    Target(
        "own.rubric",
        of_folder(partial(choose_rubric, choice=None), "rubric.json"),
        (Fault,),
        (b'{"rubric": "cgdp", "judge": "openai:a"}',),
    ),
    Target(
        "own.cross_encoder",
        of_folder(partial(_check_architecture, name="m"), "config.json"),
        (Fault,),
        (b'{"architectures": ["BertForSequenceClassification"]}',),
    ),
    Target("own.judgements", of_file(read_judgements, "j.jsonl"), (Fault,), (_lines(JUDGED, JUDGED),)),
    Target("own.rated", of_file(read_rated_pairs, "r.jsonl"), (Fault,), (_lines(RATED, RATED),)),
    Target("own.counts", of_folder(read_counts, "counts.json"), (Fault,), (_json([COUNT]),)),
    Target("own.pairs", of_folder(read_pairs, "d.jsonl"), (Fault,), (_lines(PAIR),)),
    Target("own.manifest", of_folder(read_manifest, "manifest.json"), (Fault,), (MANIFEST.model_dump_json().encode(),)),
    Target(
        "own.runs_manifest",
        of_folder(lambda folder: find_manifest(folder / "run"), "manifest.json"),
        (Fault,),
        (RunsManifest(page="p", files=("p",), command="c").model_dump_json().encode(),),
    ),
    Target("own.index_journal", of_folder(_begun, "journal.jsonl"), (Fault,), (_lines([1, "a", "e"], [3, "00"]),)),
    Target("own.samples", of_folder(_samples, "runs.jsonl"), (Fault,), (b'\n["a", 0, "r"]',)),
    Target(
        "own.journals",
        of_file(lambda path: (list(find_journals(path.parent / "r")), _cache_key(path, [])), "journal-0.jsonl"),
        (Fault,),
        (b'["a", 0, "r"]',),
    ),
    Target("own.struck", of_text(lambda line: _names_run(line, "r")), (), (b'["a", 0, "r"]',)),
    Target("own.vectors", of_file(partial(_open_vectors, count=1), "v.npy"), (Fault,), (_vectors(),)),
    Target("own.heads", of_file(load_heads, "heads.npz"), (Fault,), (_heads(),)),
)
