"""Readers of questions, and of answers that others gave to them, in the layouts that their publishers have."""

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

from fuzzing.target import Read, Target, of_file, of_folder

from certigraph.adapters.files import JsonRow, read_rows
from certigraph.adapters.retrieval.sources import read_passages
from certigraph.benchmarks.assistantbench.benchmark import read_page_parts, read_split, read_submission
from certigraph.benchmarks.hotpotqa import benchmark as hotpotqa_predictions
from certigraph.benchmarks.locomo.benchmark import ConversationBank
from certigraph.benchmarks.locomo.conversations import read_conversations
from certigraph.benchmarks.musique import benchmark as musique_predictions
from certigraph.benchmarks.swe_qa.questions import read_origins
from certigraph.benchmarks.swe_qa.questions import read_questions as read_swe
from certigraph.state.endings import Fault
from certigraph.studies.retrieval import read_questions as read_recalled

HOTPOT: dict[str, Any] = {
    **{"_id": "1", "question": "Who?", "answer": "Ada", "type": "bridge", "supporting_facts": [["A", 0], ["B", 0]]},
    "context": [["A", ["Ada was born.", " She died."]], ["B", ["B is by Ada."]]],
}
MUSIQUE: dict[str, Any] = {
    **{"id": "1", "question": "Who?", "answer": "Ada", "answer_aliases": ["A"], "answerable": True},
    "question_decomposition": [{"question": "#1 x", "answer": "Ada", "paragraph_support_idx": 0}],
    "paragraphs": [{"idx": 0, "title": "A", "paragraph_text": "Ada was born. She died.", "is_supporting": True}],
}
LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "c",
        "conversation": {
            **{"speaker_a": "Ann", "speaker_b": "Bob", "session_1_date_time": "1 May"},
            "session_1": [{"dia_id": "D1:1", "speaker": "Ann", "text": "I have a dog."}],
        },
        "qa": [{"question": "What has Ann?", "answer": "a dog", "evidence": ["D1:1"], "category": 4}],
    }
]
SEEN: dict[str, Any] = {
    "id": "1",
    "history": [
        {"role": "Computer_terminal", "content": "Search Result 1:\nGym\nhttps://example.org/a\nopen till 6"},
        {
            "role": "user",
            "name": "WebSurfer",
            "content": "Here is a screenshot of [Gym](https://example.org/b). The viewport shows it. "
            "I detected the following text:\nopen till 6",
        },
    ],
}
ASSISTANT: dict[str, Any] = {"id": "1", "set": "dev", "task": "Which gym?", "answer": "A", "difficulty": "Hard"}
PRO: dict[str, Any] = {
    "extra_info": {"question": "q", "answer": "a", "repo_name": "a/b", "commit_id": "00"},
    "qa_type": {"class_name": "What x"},
}

PREDICTED = b'{"answer": {"1": "Ada"}, "sp": {"1": [["A", 0]]}}'
FOLLOWED = b'{"id": "1", "predicted_answer": "Ada", "predicted_support_idxs": [0], "predicted_answerable": true}'
PASSAGE = b'{"id": "1", "title": "A", "text": "Ada."}\n'

ONE_HOTPOT = list(hotpotqa_predictions.parse_questions([JsonRow("here", HOTPOT)]).values())
ONE_MUSIQUE = list(musique_predictions.parse_questions([JsonRow("here", MUSIQUE)]).values())


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _packed(read: Any, name: str) -> Read:
    """A reader of what a gzipped file unpacks to."""
    plain = of_file(read, name)
    return lambda data: plain(gzip.compress(data, 1))


def _talks(path: Path) -> object:
    bank = ConversationBank(lambda: read_conversations(path))
    return bank.original, bank.swapped


def _all(read: Any) -> Any:
    return lambda path: list(read(path))


TARGETS = (
    Target("rows.plain", of_file(_all(read_rows), "rows.jsonl"), (Fault,), (b'{"a": 1}\n{}\n', b'[{"a": 1}]')),
    Target("rows.packed", of_file(_all(read_rows), "rows.jsonl.gz"), (Fault,), (gzip.compress(b"{}\n", mtime=0),)),
    Target(
        "questions.hotpotqa",
        of_folder(partial(hotpotqa_predictions.read_questions, split="dev"), "dev_distractor.jsonl"),
        (Fault,),
        (_json(HOTPOT),),
    ),
    Target(
        "questions.musique",
        of_folder(partial(musique_predictions.read_questions, split="dev"), "musique_ans_dev.jsonl"),
        (Fault,),
        (_json(MUSIQUE),),
    ),
    Target("questions.locomo", of_file(_talks, "locomo10.json"), (Fault,), (_json(LOCOMO),)),
    Target(
        "questions.assistantbench",
        of_folder(partial(read_split, split="dev"), "a.jsonl"),
        (Fault,),
        (_json(ASSISTANT),),
    ),
    Target("questions.seen", of_folder(_all(read_page_parts), "whowhen_trajectories.jsonl"), (Fault,), (_json(SEEN),)),
    Target(
        "questions.swe_qa",
        of_file(partial(read_swe, origins={}), "flask.jsonl"),
        (Fault,),
        (_json(PRO), b'{"question": "q", "answer": "a"}'),
    ),
    Target(
        "questions.origins",
        of_folder(read_origins, "repo_commit.txt"),
        (Fault,),
        (b"https://github.com/a/b.git 00\n",),
    ),
    Target("questions.recall", _packed(read_recalled, "r.jsonl.gz"), (Fault,), (_json(HOTPOT), _json(MUSIQUE))),
    Target(
        "answers.hotpotqa",
        of_file(partial(hotpotqa_predictions.score_predictions, questions=ONE_HOTPOT), "p.json"),
        (Fault,),
        (PREDICTED,),
    ),
    Target(
        "answers.musique",
        of_file(partial(musique_predictions.score_predictions, questions=ONE_MUSIQUE), "p.jsonl"),
        (Fault,),
        (FOLLOWED,),
    ),
    Target(
        "answers.assistantbench",
        of_file(partial(read_submission, ids={"1": None}), "s.jsonl"),
        (Fault,),
        (b'{"id": "1", "answer": ["a", 1]}',),
    ),
    Target(
        "corpus.rows", of_file(_all(read_passages), "c.jsonl"), (Fault,), (PASSAGE * 2, _json(HOTPOT), _json(MUSIQUE))
    ),
    Target("corpus.list", of_file(_all(read_passages), "c.json"), (Fault,), (b"[" + PASSAGE + b"]",)),
    Target("corpus.packed", of_file(_all(read_passages), "c.jsonl.gz"), (Fault,), (gzip.compress(PASSAGE, mtime=0),)),
)
