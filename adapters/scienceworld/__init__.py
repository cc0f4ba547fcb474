"""ScienceWorld: the elementary-science simulator in a JVM, deterministic; protocols, scoring, recordings, a twin."""
