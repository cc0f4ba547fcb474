"""Supervised reward models: training them, and how far they carry from one domain to another."""
