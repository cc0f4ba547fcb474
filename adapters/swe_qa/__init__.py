"""Questions about code repositories: SWE-QA and SWE-QA-Pro, or the user's own over any folder."""
