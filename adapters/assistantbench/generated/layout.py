"""Pages as HTML: the content among the furniture that real sites put around it."""

from html import escape

from certigraph.adapters.assistantbench.generated.pages import Table, WebPage

FURNITURE = '<nav><ul><li><a href="/">Home</a></li><li><a href="/contact">Contact</a></li></ul></nav>'

FOOT = "<footer><p>All rights reserved. Cookies are used on this site.</p></footer>"

STUB = "<html><head><title>Soon</title></head><body><p>Back soon.</p></body></html>"


def html(page: WebPage) -> str:
    """The page's source. The same page, the same text."""
    content = "".join(_table(block) if isinstance(block, Table) else _paragraph(block) for block in page.blocks)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title></head>'
        f"<body>{FURNITURE}<main><article><h1>{escape(page.title)}</h1>{content}</article></main>"
        f"{_hidden(page.hidden)}{FOOT}</body></html>"
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _hidden(text: str) -> str:
    if not text:
        return ""
    told = escape(text)
    unseen = f'<div style="display:none" aria-hidden="true"><p>{told}</p></div>'
    return f'{unseen}<p style="color:#fff;font-size:0">{told}</p><!-- {told.replace("--", "- -")} -->'
