"""RewardPrediction (StateFactory paper): how well rewards are predicted along recorded trajectories of five worlds."""
