"""What is read of a page's bytes."""

import contextlib
import sys
import time

import pytest
import trafilatura
from hypothesis import given, settings
from hypothesis import strategies as st

from certigraph.adapters.http import Refused
from certigraph.adapters.web import pages as module
from certigraph.adapters.web.pages import Readable, readable
from certigraph.state.records import Fault

PROSE = "The museum opens at nine and closes at five, every day but Monday, and children enter free of charge."
ROWS = "<tr><th>Day</th><th>Opens</th></tr><tr><td>Mon</td><td>7:15</td></tr><tr><td>Tue</td><td>8:45</td></tr>"
TABLE = f"<table>{ROWS}</table>"
LIST = "<ul><li>Adults: $5.00</li><li>Children: $2.50</li></ul>"
MENU = "<nav><ul><li><a href=/>Home</a></li></ul></nav>"


def text(inner: str, kind: str = "text/html; charset=utf-8", title: str = "A title") -> str:
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{inner}</body></html>"
    return readable(page.encode(), kind).text


def reason(body: bytes, kind: str) -> tuple[str, bool]:
    with pytest.raises(Refused) as caught:
        readable(body, kind)
    return caught.value.reason, caught.value.lasting


def test_tables_and_lists_of_a_short_page_are_complete():
    lines = text(f"{MENU}<h1>Pool</h1><p>{PROSE}</p>{TABLE}{LIST}<footer>Copyright</footer>").split("\n")
    for line in (PROSE, "| Day | Opens |", "| Mon | 7:15 |", "| Tue | 8:45 |", "- Adults: $5.00", "- Children: $2.50"):
        assert line in lines
    assert not {"Home", "- Home", "Copyright"} & set(lines)


def test_a_table_far_from_the_article_is_kept():
    article = "".join(f"<p>{PROSE} It has {n} rooms.</p>" for n in range(40))
    menu = "<ul><li><a href=/>Home</a></li></ul>"
    found = text(f"<article>{article}</article>{menu}<div class='sidebar widget'><h4>Fees</h4>{TABLE}</div>")
    assert found.count("| Mon | 7:15 |") == 1
    assert found.startswith(PROSE)
    assert "Home" not in found


def test_a_page_of_one_list_stays_one():
    names = "".join(f"<li>Gym {n}: {n} Main Street</li>" for n in range(7))
    assert "- Gym 1: 1 Main Street" in text(f"<h1>Gyms</h1><ul>{names}</ul>").split("\n")


def test_pages_too_large_for_the_extractor_are_outlined(monkeypatch):
    asked = []
    monkeypatch.setattr(trafilatura, "extract", lambda tree, **options: asked.append(tree))
    found = text(f"<p>{PROSE}</p><table>{'<tr><td>1<td>2' * 7000}</table>")
    assert found.startswith(f"{PROSE}\n| 1 | 2 |\n")
    assert asked == []


def test_pages_of_bare_elements_are_outlined():
    card = "<div><span>Gym {n}</span><br><a href=/{n}>{n} First Avenue</a><div>${n}.50</div></div>"
    cards = "".join(card.format(n=n) for n in range(9))
    found = text(f"<form>{cards}</form>")
    assert all(f"{n} First Avenue" in found and f"${n}.50" in found for n in range(9))


def test_nested_and_large_tables():
    rows = "".join(f"<tr><td>Item {n}</td><td><p>${n}</p><p>each</p></td></tr>" for n in range(4000))
    lines = text(f"<table><tr><td>{PROSE}</td><td><table>{rows}</table></td></tr></table>").split("\n")
    assert "| Item 3999 | $3999 each |" in lines


def test_what_a_reader_does_not_see_is_left_out():
    hidden = (
        "<!-- COMMENT --><script>var SCRIPT = 1</script><style>.STYLE {}</style><template>TEMPLATE</template>"
        "<p style='DISPLAY : none'>NONE</p><p hidden>HIDDEN</p><div aria-hidden=true><p>ARIA</p></div>"
        "<span style='font-size:0px'>ZERO</span><p style='color:red;visibility:hidden'>INVISIBLE</p>"
    )
    found = text(f"<p>{PROSE}{hidden}</p><p style='font-size:0.9em'>Small print.</p>{hidden}tail")
    assert PROSE in found and "Small print." in found and "tail" in found
    assert not any(word.isupper() and len(word) > 3 for word in found.split())


def test_titles():
    page = f"<h1>Heading</h1><p>{PROSE}</p>".encode()
    assert readable(b"<title> Two\n words </title>" + page, "text/html").title == "Two words"
    assert readable(page, "text/html").title == "Heading"
    assert len(readable(b"<title>" + b"x" * 5000 + b"</title>" + page, "text/html").title) == 300


def test_markdowns_escapes_do_not_end_up_in_answers():
    assert "a*b_c [1] <5" in text(f"<p>{PROSE} a*b_c [1] &lt;5</p>")


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/csv", "application/xml", "TEXT/MARKDOWN"])
def test_other_text_is_as_it_is(kind):
    source = f"{PROSE}\n<b>no</b> page,  of HTML\n"
    assert readable(source.encode(), kind) == Readable("", source.strip())


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/octet-stream", "image/svg+xml"])
def test_what_is_no_text(kind):
    assert reason(PROSE.encode() * 2, kind) == (f"{kind} is no page of text", False)


@pytest.mark.parametrize("kind", ["application/" + "x" * 99, "application/<b>now"])
def test_a_type_that_is_none_is_not_repeated(kind):
    assert reason(PROSE.encode(), kind) == ("this is no page of text", False)


def test_bytes_that_are_no_text():
    assert reason(b"\x89PNG\r\n\0\0\0" + PROSE.encode() * 2, "text/html") == ("its bytes are no text", False)


@pytest.mark.parametrize("page", [b"", b"<html></html>", b"<p>" + b"x" * 99, b"<script>" + b"x" * 500 + b"</script>"])
def test_hardly_any_text(page):
    assert reason(page, "text/html") == ("less than 100 characters of text", True)


@pytest.mark.parametrize(
    ("header", "declared", "codec"),
    [
        ("; charset=iso-8859-1", "", "cp1252"),
        ("; charset=windows-1251", "utf-8", "cp1251"),
        ("", "windows-1251", "cp1251"),
        ("; charset=nonsense", "utf-8", "utf-8"),
        ("; charset=rot13", "", "utf-8"),
        ("", "", "utf-8"),
        ("; charset=utf-8", "", "utf-16"),
        ("; charset=iso-8859-1", "", "utf-8-sig"),
    ],
)
def test_charsets(header, declared, codec):
    word = "Привет" if codec == "cp1251" else "Zoë's “café”"
    meta = f"<meta charset='{declared}'>" if declared else ""
    page = f"<html><head>{meta}</head><body><p>{PROSE} {word}</p></body></html>".encode(codec)
    assert word in readable(page, f"text/html{header}").text


def test_a_wrong_charset_loses_letters_only():
    found = readable(f"<p>{PROSE}</p><p>caf\xe9 open</p>".encode("cp1252"), "text/html; charset=utf-8").text
    assert PROSE in found and "caf\ufffd open" in found


MARKUP = st.lists(
    st.sampled_from(
        ["<p>", "</p>", "<table>", "<tr>", "<td>", "</div>", "<ul><li>", "<!--", "-->", "<![CDATA[", "<svg>"]
    )
    | st.sampled_from(
        ["&#1;", "&#xFFFE;", "&amp", "\x01", "<a href='", "<body hidden>", "<html hidden>", "<?xml x='x'?>"]
    )
    | st.text(max_size=30),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(MARKUP)
def test_malformed_pages_raise_nothing(parts):
    try:
        found = readable(("".join(parts) + f"<p>{PROSE}").encode("utf-8", "replace"), "text/html")
        assert len(found.text) >= module.SHORTEST
    except Refused as refused:
        assert refused.reason in ("less than 100 characters of text", "its bytes are no text")


@given(st.text(), st.sampled_from(["", "text/html; charset=", "text/plain;"]))
def test_any_content_type_is_one_or_refused(header, before):
    with contextlib.suppress(Refused):
        readable(PROSE.encode() + b"\xe9\xff", before + header)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<?xml" + b" " * 200_000 + PROSE.encode() * 9, "text/html"),
        (b"a" * 300_000 + b"-" + b"a" * 300_000, "text/plain; charset=punycode"),
    ],
    ids=["an endless declaration", "a charset that is none"],
)
def test_what_would_take_minutes_is_left_out(body, kind):
    start = time.monotonic()
    with contextlib.suppress(Refused):
        readable(body, kind)
    assert time.monotonic() - start < 10


def test_controls_and_halves_of_characters_are_left_out():
    assert readable(f"{PROSE}\x1b[31m red\r\n\x9b".encode(), "text/plain").text == f"{PROSE}[31m red"
    assert readable(f"{PROSE}+2AA- end".encode(), "text/html; charset=utf-7").text == f"{PROSE} end"
    assert "\1" not in readable(f"<p>{PROSE}</p><p>one &#1; two</p>".encode(), "text/html").text


def test_an_extractor_that_fails_leaves_the_outline(monkeypatch):
    def fail(*args, **kwargs):
        raise RecursionError

    monkeypatch.setattr(trafilatura, "extract", fail)
    assert "| Mon | 7:15 |" in text(f"<p>{PROSE}</p>{TABLE}")


def test_a_missing_extra_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    line = r"^reading pages needs trafilatura, missing here: pip install 'certigraph\[web\]'$"
    with pytest.raises(Fault, match=line):
        text(f"<p>{PROSE}</p>")
