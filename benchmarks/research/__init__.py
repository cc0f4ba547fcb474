"""Research on the web: the environment, SDP's operators for it (appendix A.4), questions, AssistantBench's scores."""
