"""What steps found, and what a policy let pass, in reports and live views: nothing forced is shown as certified."""

import io
import re

import pytest
from inquiring import FOUND, GOAL_PASSED, GUESSED, inquiry, page
from rich.console import Console

from certigraph.runtime.live import LiveView
from certigraph.state.records import Finding


@pytest.fixture
def result(tmp_path):
    return inquiry(tmp_path)


def lines_of(result, **console):
    shown = Console(file=io.StringIO(), **console)
    with LiveView(shown) as view:
        for line in (result.trajectory.header, *result.trajectory.events, result.trajectory.footer):
            view(line)
    return shown.file.getvalue().splitlines()


def test_report_shows_findings_sources_and_forced_passes_under_their_predicates(result, tmp_path):
    html = page(result, tmp_path)
    assert re.findall(r'<li class="row (\w+)', html) == ["certified", "forced", "certified", "certified"]
    assert "<dd>3/4<small>predicates, 1 passed uncertified" in html
    assert "passed, uncertified (force_pass): still a blog alone" in html
    first, second = html.split('<li class="row')[1:3]
    assert all(f'href="{url}"' in first for url in (*FOUND.sources, *FOUND.against))
    assert re.search(r"contradicted by <a[^>]*>https://old.example/list</a>: there are three", first)
    assert second.count(GUESSED.text) == 2  # as it was refused, and as it was let pass
    assert FOUND.text not in second


def test_a_goal_that_was_let_pass_is_not_called_certified(tmp_path):
    result = inquiry(tmp_path, *GOAL_PASSED)
    html = page(result, tmp_path)
    assert result.ending == "gave_up"
    assert "goal passed, uncertified" in html
    assert "goal certified" not in html
    assert ">gave up<" not in html


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        " https://x.example",
        "java\nscript:alert(1)",
        "https:\n//x.example",
        "https://x.example/\u202efdp.exe",
        "//x.example/y",
        "file:///etc/passwd",
        '"onclick="alert(1)',
    ],
)
def test_only_web_addresses_are_links(url, tmp_path):
    shady = Finding(about="<u>", text="<u><script>1</script>", sources=(url,), against=(url,), dispute="<img src=x>")
    html = page(inquiry(tmp_path, found=shady), tmp_path)
    assert not re.search(r'<(script|img|u>)|"onclick="', html)
    assert all(link.startswith("https://blog.example/") for link in re.findall(r'href="([^"]*)"', html))


def test_links_tell_the_page_they_lead_to_nothing(result, tmp_path):
    links = re.findall(r"<a [^>]*>", page(result, tmp_path))
    assert links
    assert all('rel="noopener noreferrer nofollow"' in link for link in links)


def test_plain_lines_have_one_for_each_pass_and_each_finding(result):
    lines = lines_of(result, width=60)
    assert lines[2:6] == [
        "step 1: certified 1/4: p1",
        f"step 1: found: {FOUND.text} ({', '.join(FOUND.sources)}); contradicted by https://old.example/list: "
        "there are three",
        "step 3: passed, uncertified (force_pass): p2",
        "step 3: found: The cheaper one costs 20. (https://blog.example/20)",
    ]
    assert "3/4 certified, 1 passed uncertified" in lines[-1]


def test_the_frame_tells_certified_and_passed_apart(result):
    frame = lines_of(result, force_terminal=True, width=150, height=24, color_system=None)
    first, second = (next(line for line in reversed(frame) if f" {n} p{n} " in line) for n in (1, 2))
    assert "✓" in first
    assert "→ Two gyms lie near the park. (https://gyms.example/list" in first
    assert "!" in second
    assert "passed, uncertified (force_pass)" in second
    assert any("certified 3/4" in line and "uncertified 1" in line for line in frame)
