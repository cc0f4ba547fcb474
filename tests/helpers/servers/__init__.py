"""Servers that tests start: model endpoints, Postgres, MCP, LangGraph's development server."""
