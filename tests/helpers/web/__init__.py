"""Webs, search services and browsers."""
