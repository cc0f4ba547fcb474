"""CGDP's study: search harnesses under four memory conditions, with and without the exhaustion gate (section 6)."""
