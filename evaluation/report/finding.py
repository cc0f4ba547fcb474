"""A finding as it is shown under its predicate: what was found, by which sources, and which say otherwise."""

from collections.abc import Sequence

from certigraph.evaluation.report.html import Markup, clipped, joined, shortened, tag
from certigraph.state.records import Finding

LINKED = ("http://", "https://")

LONGEST_FINDING, LONGEST_URL = 1_500, 160


def finding_block(finding: Finding) -> Markup:
    """The finding and its sources. A URL is a link where it is one of the web, else it is text."""
    said = tag("p", shortened(finding.text, LONGEST_FINDING))
    by = [tag("p", "by ", _links(finding.sources), class_="sources")] if finding.sources else []
    return tag("div", said, *by, *_against(finding), class_="found")


def _against(finding: Finding) -> list[Markup]:
    if not finding.against and not finding.dispute:
        return []
    named = joined("contradicted by ", _links(finding.against)) if finding.against else Markup("disputed")
    told = f": {shortened(finding.dispute, LONGEST_FINDING)}" if finding.dispute else ""
    return [tag("p", named, told, class_="against")]


def _links(urls: Sequence[str]) -> Markup:
    links = [_link(url) for url in urls]
    return joined(*(joined(", ", link) if number else link for number, link in enumerate(links)))


def _link(url: str) -> Markup:
    """Nothing but a web address leads anywhere: a page that was read may name a URL that runs a script."""
    shown = clipped(url, LONGEST_URL)
    if not url.lower().startswith(LINKED) or not url.isprintable():
        return joined(shown)
    return tag("a", shown, href=url, rel="noopener noreferrer nofollow")
