"""Audits of the rules that certify conditions, one module a world."""
