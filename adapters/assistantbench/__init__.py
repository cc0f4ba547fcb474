"""AssistantBench (Yoran et al., 2024): time-consuming questions on the web, and a generated web with questions."""
