"""`certigraph bench`: our own machinery beside a bare LangGraph loop and a plain Python loop."""
