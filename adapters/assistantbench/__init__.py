"""AssistantBench (Yoran et al., 2024): questions that take an afternoon on the web; and a web made for them."""
