"""Runs in other people's formats: ATIF documents, inspect_ai logs, and a Parquet table for offline RL."""
