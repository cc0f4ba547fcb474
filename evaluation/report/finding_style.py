"""How findings and forced passes look."""

FINDING_STYLE = """\
:root { --force: #7a4b9d; --force-soft: #f0e8f6; }
@media (prefers-color-scheme: dark) { :root { --force: #c5a3e2; --force-soft: #30243b; } }
.forced { --mark: var(--force); --tint: var(--force-soft); }
.badge.forced { background: var(--force-soft); color: var(--force); }
.passed { margin: 4px 0 0 27px; font-size: 13.5px; color: var(--mark); }
.found { margin: 4px 0 0 27px; padding-left: 11px; border-left: 2px solid var(--mark, var(--line)); font-size: 13.5px; }
.found p { white-space: pre-wrap; }
.found .sources { color: var(--soft); font-size: 12.5px; }
.found .against { color: var(--bad); font-size: 12.5px; }
.found a { color: inherit; text-decoration-color: var(--faint); text-underline-offset: 2px; }
.try .found { margin-left: 13px; border-color: var(--line); }
.pass { fill: var(--force); }
.pass-key { display: inline-block; width: 8px; height: 8px; margin-right: 7px; border-radius: 8px;
  background: var(--force); }
"""
