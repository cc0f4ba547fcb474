"""Chat models, scorers and what they answer."""
