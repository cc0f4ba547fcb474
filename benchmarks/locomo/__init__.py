"""LoCoMo (Maharana et al., ACL 2024): questions about very long conversations between two speakers."""
