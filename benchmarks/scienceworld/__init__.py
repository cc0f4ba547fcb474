"""ScienceWorld: an elementary-science simulator in a deterministic JVM, with protocols and recorded solutions."""
