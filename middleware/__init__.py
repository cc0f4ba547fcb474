"""certigraph's operators as middleware of LangChain's `create_agent`, of deepagents and of any `ToolNode`."""
