"""Tools that agent frameworks bring themselves: their plans, notes and handoffs change nothing outside of the agent."""

from langchain_core.tools import BaseTool, StructuredTool

BUILTIN_LOOK_UPS = {
    "langchain.": frozenset({"write_todos"}),
    "deepagents.": frozenset(
        {"write_todos", "ls", "read_file", "write_file", "edit_file", "glob", "grep", "task", "compact_conversation"}
    ),
}
"""Names of such tools by the beginning of the module that defines them. A shell (`execute`) is not among them.

A sub-agent (`task`) has tools of its own, whose effects are those of its own calls.
"""


def is_builtin_look_up(tool: BaseTool) -> bool:
    """Return whether a tool belongs to a framework and has no effect outside of its agent, so that it may be repeated.

    A tool of the user's that has the name of one is not taken for it.
    """
    return any(is_defined_in(tool, begin) and tool.name in names for begin, names in BUILTIN_LOOK_UPS.items())


def is_builtin(tool: BaseTool) -> bool:
    """Return whether a tool belongs to a framework: what it changes is in the agent's own files or its sandbox."""
    return any(is_defined_in(tool, begin) for begin in BUILTIN_LOOK_UPS)


def is_defined_in(tool: BaseTool, begin: str) -> bool:
    """Return whether the name of the module that defines a tool begins so."""
    function = (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else None
    return f"{getattr(function, '__module__', '')}.".startswith(begin)


__all__ = ["is_builtin", "is_builtin_look_up"]
