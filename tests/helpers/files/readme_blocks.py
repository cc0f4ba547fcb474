"""Python blocks of documents: executed, with every `# -> LITERAL` compared."""

import ast
from typing import Any


def check_block(source: str, names: dict[str, Any]) -> int:
    """Execute a block statement by statement, compare every `# -> LITERAL`, and return how many there were."""
    lines, compared = source.splitlines(), 0
    for statement in ast.parse(source).body:
        _, arrow, literal = lines[(statement.end_lineno or 1) - 1].partition("# -> ")
        if not arrow:
            exec(compile(ast.Module([statement], []), "document", "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"a value is stated of no expression: {ast.unparse(statement)}"
        found = eval(compile(ast.Expression(statement.value), "document", "eval"), names)
        assert found == ast.literal_eval(literal), f"{ast.unparse(statement)} is {found!r}, the document says {literal}"
        compared += 1
    return compared
