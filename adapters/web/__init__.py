"""The web as tools see it: search providers, a page fetcher that keeps to the rules, and what is kept of both."""
