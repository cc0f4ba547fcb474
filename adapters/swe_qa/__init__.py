"""Questions about code repositories: SWE-QA and SWE-QA-Pro, or one's own over any folder."""
