"""The papers' analyses: tables, figures and studies."""
