"""Checkpoints and lessons on a Postgres server: workers on several machines go on with each other's runs."""
