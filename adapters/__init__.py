"""What a method needs from outside, whatever the task: models, tools, retrieval, the web.

Worlds, and what else belongs to one benchmark, are in `benchmarks`.
"""
