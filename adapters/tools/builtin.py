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
    function = (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else None
    module = f"{getattr(function, '__module__', '')}."
    return any(module.startswith(begin) and tool.name in names for begin, names in BUILTIN_LOOK_UPS.items())


__all__ = ["is_builtin_look_up"]
