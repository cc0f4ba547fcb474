"""Research on the web: its world, SDP's operators for it (appendix A.4), questions and AssistantBench's scores."""
