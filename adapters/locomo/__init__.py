"""LoCoMo: questions about very long conversations of two speakers (Maharana et al., ACL 2024)."""
