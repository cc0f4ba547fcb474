"""ScienceWorld: an elementary-science simulator in a deterministic JVM, with evaluation protocols and recorded runs."""
