"""The analyses of the papers SDP, TDP, STEP, CGDP and StateFactory: tables, figures and studies."""
