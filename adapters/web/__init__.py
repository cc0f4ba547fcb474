"""The web: search providers, a page source that obeys robots.txt, and a cache of both."""
