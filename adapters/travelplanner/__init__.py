"""TravelPlanner: its data, official scorer, generated world, and SDP operators (SDP appendix A.2)."""
