"""The experiments of the papers SDP, TDP, STEP, CGDP and StateFactory: tables, figures, rubrics."""
