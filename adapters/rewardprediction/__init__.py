"""RewardPrediction: how well rewards are predicted along recorded trajectories of five worlds."""
