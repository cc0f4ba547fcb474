"""AssistantBench (Yoran et al., 2024): questions that need research on the web; and a generated web with questions."""
