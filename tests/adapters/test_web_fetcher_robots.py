"""Robots.txt: who asks for it, how often, and what its absence means."""

import pytest
from web_stub import Behaviour, Site, body, redirect, silent, status, web

from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Page, Unreadable

PAGE = f"<html><body><p>{'Some words that make up a page of text. ' * 5}</p></body></html>"
ROBOTS = "User-agent: *\nDisallow: /private\n\nUser-agent: greedy\nDisallow: /\n"
REFUSED = "its robots.txt does not allow it"


def reader(site: Site, **options) -> Fetcher:
    return Fetcher(**{"timeout": 10, "hosts": {".example": site.place}, **options})


def outcome(robots: Behaviour, path: str = "x") -> str:
    with web({f"/{path}": body(PAGE), "/robots.txt": robots}) as site:
        found = reader(site).page(f"http://a.example/{path}")
    return "" if isinstance(found, Page) else found.reason


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        (ROBOTS, "x", ""),
        (ROBOTS, "private/x", REFUSED),
        ("User-agent: Certigraph\nDisallow: /\n", "x", REFUSED),
        ("User-agent: *\nDisallow: /\nAllow: /x$\n", "x", ""),
        ("#" * 600_000 + "\nUser-agent: *\nDisallow: /\n", "x", ""),
        ("\0\xff: no rules\n::::", "x", ""),
        # as a regular expression this would take years
        ("User-agent: *\nDisallow: /" + "*a" * 20 + "*b\n", "a" * 60, ""),
    ],
)
def test_rules(rules, path, expected):
    assert outcome(body(rules, "text/plain"), path) == expected


@pytest.mark.parametrize(("code", "expected"), [(404, ""), (403, ""), (429, ""), (500, REFUSED), (503, REFUSED)])
def test_no_rules(code, expected):
    assert outcome(status(code)) == expected


def test_a_robots_txt_that_moved():
    with web({"/x": body(PAGE), "a.example/robots.txt": redirect("//b.example/r"), "/r": body(ROBOTS)}) as site:
        assert isinstance(reader(site).page("http://a.example/x"), Page)
        assert isinstance(reader(site).page("http://a.example/private/x"), Unreadable)
    assert outcome(redirect("http://169.254.169.254/")) == "redirects to a private address"


def test_it_is_asked_for_once_for_each_host():
    pages = {"/x": body(PAGE), "/robots.txt": status(404)}
    with web(pages) as site:
        fetcher = reader(site)
        for url in ("http://a.example/x", "http://a.example/x", "http://b.example/x", "http://a.example:8080/x"):
            assert isinstance(fetcher.page(url), Page)
        assert [asked for asked in site.asked if "robots" in asked] == [
            "a.example/robots.txt",
            "b.example/robots.txt",
            "a.example/robots.txt",
        ]


def test_the_host_of_a_redirect_is_asked_too():
    pages = {"a.example/x": redirect("http://b.example/private"), "/private": body(PAGE)}
    with web({**pages, "b.example/robots.txt": body(ROBOTS)}) as site:
        found = reader(site).page("http://a.example/x")
        assert found == Unreadable(url="http://a.example/x", reason=REFUSED)
        assert "b.example/private" not in site.asked


def test_a_site_that_does_not_answer_is_no_refusal_for_good():
    with web({"/x": body(PAGE), "/robots.txt": silent(0.5)}) as site:
        fetcher = reader(site, timeout=0.15)
        late = fetcher.page("http://a.example/x")
        assert late == Unreadable(url="http://a.example/x", reason="timed out after 0.15 s", lasting=True)
        site.pages["/robots.txt"] = status(404)
        assert isinstance(fetcher.page("http://a.example/x"), Page)


def test_without_robots_it_is_not_asked_for():
    with web({"/x": body(PAGE), "/robots.txt": body("User-agent: *\nDisallow: /")}) as site:
        assert isinstance(reader(site, robots=False).page("http://a.example/x"), Page)
        assert site.asked == ["a.example/x"]
