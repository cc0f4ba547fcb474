"""RewardPrediction: building its pairs, and measuring how well rewards are predicted on them."""
