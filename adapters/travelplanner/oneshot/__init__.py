"""Plan-as-text: the whole itinerary written in one pass, the baselines that SDP is compared with (section 4.1)."""
