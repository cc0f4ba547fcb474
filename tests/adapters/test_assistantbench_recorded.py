"""The offline web of AssistantBench: what recorded agents saw, and nothing that they said."""

import json
from pathlib import Path

import pytest
from real_data import data_folder

from certigraph.adapters.assistantbench.benchmark import AssistantBench, read_seen, recorded_web
from certigraph.adapters.web.protocol import Page, Unreadable
from certigraph.state.records import Fault

FOUND = """exitcode: 0 (execution succeeded)
Code output: Search Result 1:
The Root - Gym
https://root.example/gym#top
A gym in Point Pleasant.
Search Result 2:
Muscle
https://muscle.example/
Open late."""

SHOWN = """I clicked 'The Root'.

Here is a screenshot of [The Root](https://root.example/gym). The viewport shows 31% of the webpage.

Automatic OCR of the page screenshot has detected the following text:

Sure, here is the transcription of all visible text on the page:

Opens at five.
Closes at nine.
Traceback (most recent call last):"""

SERP = SHOWN.replace("https://root.example/gym", "https://www.bing.com/search?q=gym").replace("five", "SERP")

HISTORY = [
    {"role": "user", "name": "Computer_terminal", "content": FOUND},
    {"role": "user", "name": "Gym_Expert", "content": FOUND.replace("root", "claimed")},
    {"role": "WebSurfer", "content": SHOWN},
    {"role": "WebSurfer", "content": SHOWN},
    {"role": "WebSurfer", "content": SERP},
    {"role": "WebSurfer", "content": "I think that the answer is The Root."},
    {"role": "Orchestrator (thought)", "content": SHOWN.replace("root", "thought")},
]


def recorded(folder: Path, *histories: object) -> Path:
    rows = [{"id": f"task {n}", "history": history, "mistake_step": "2"} for n, history in enumerate(histories)]
    (folder / "whowhen_trajectories.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_a_page_is_put_together_from_all_that_was_seen_of_it(tmp_path: Path):
    page = recorded_web(recorded(tmp_path, HISTORY)).page("https://root.example/gym#hours")
    assert isinstance(page, Page)
    assert (page.url, page.title) == ("https://root.example/gym#hours", "The Root - Gym")
    assert page.text == "A gym in Point Pleasant.\n\nOpens at five.\nCloses at nine."


def test_nothing_is_taken_from_agents_and_search_pages(tmp_path: Path):
    seen = list(read_seen(recorded(tmp_path, HISTORY)))
    assert {piece.url for piece in seen} == {"https://root.example/gym", "https://muscle.example/"}
    assert {piece.task for piece in seen} == {"task 0"}


def test_search_finds_pages_by_their_words(tmp_path: Path):
    web = recorded_web(recorded(tmp_path, HISTORY, [HISTORY[0]]))
    (hit,) = web.search("when does the gym close? closes", 1)
    assert (hit.url, hit.title) == ("https://root.example/gym", "The Root - Gym")
    assert "Closes at nine." in hit.snippet
    assert web.search("zebra", 5) == []


def test_what_was_never_seen_cannot_be_read(tmp_path: Path):
    gone = recorded_web(recorded(tmp_path, HISTORY)).page("https://else.example/")
    assert gone == Unreadable(url="https://else.example/", reason="never recorded")


def test_missing_recordings_are_told(tmp_path: Path):
    with pytest.raises(Fault, match=r"no whowhen_trajectories\.jsonl: .* leave out :recorded"):
        recorded_web(tmp_path)


def test_the_recorded_web_is_as_large_as_measured():
    folder = data_folder("assistantbench")
    seen = [piece for piece in read_seen(folder) if piece.text]
    assert (len({piece.url for piece in seen}), len({piece.task for piece in seen})) == (306, 23)
    made = AssistantBench(folder, "recorded")
    web = made.web(made.tasks()[0])
    hits = web.search(web.provider, "monday.com executives at its IPO", 5)
    assert len(hits) == 5 and isinstance(web.read([hits[0].url])[0], Page)
