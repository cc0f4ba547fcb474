"""Questions about code repositories: SWE-QA, SWE-QA-Pro, or the user's own questions about any folder."""
