"""TravelPlanner: plan trips under constraints. Data, official scorer, generated data, two environments, operators."""
