"""How episodes look, beyond the style of the page: turns, subtasks, lessons and the score drawing."""

EPISODE_STYLE = """\
.ink0 { --mark: #3d7fb5; } .ink1 { --mark: #d5662a; } .ink2 { --mark: #1d9a74; }
.ink3 { --mark: #c274a0; } .ink4 { --mark: #ad8a14; } .ink5 { --mark: #58aede; }
.score { fill: none; stroke: var(--mark); stroke-width: 2; stroke-linejoin: round; }
.episode + .episode { border-top: 1px solid var(--line); margin-top: 10px; padding-top: 10px; }
.episode > summary { display: flex; align-items: baseline; }
.episode > summary .when { margin-left: auto; }
.episode > summary::after, .subtask > summary::after { content: "+"; color: var(--faint); width: 1.4em;
  flex: none; text-align: right; }
.episode[open] > summary::after, .subtask[open] > summary::after { content: "\\2212"; }
.subtask { margin-top: 12px; }
.subtask > summary { position: relative; display: flex; gap: 10px; align-items: baseline; padding-left: 32px; }
.subtask > :not(summary) { margin-left: 32px; }
.subtask > .reason, .subtask > .how, .subtask > .part { font-size: 13.5px; }
.turn, .refused { margin-top: 6px; font-size: 13.5px; }
.turn > summary, .refused { display: grid; gap: 0 10px; }
.turn > summary { grid-template-columns: 1.6em 1fr auto; }
.turn.rated > summary { grid-template-columns: 2.6em 1fr auto; }
.score.true { stroke-width: 1.2; stroke-dasharray: 4 3; opacity: .6; }
.turn .answer { grid-column: 2 / -1; color: var(--faint); white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.turn .round { grid-column: 2 / -1; color: var(--soft); font-size: 12.5px; }
.turn .round.gate { color: var(--bad); }
.turn[open] .answer { display: none; }
.turn.rejected .action { color: var(--bad); }
.turn > .part { margin-left: calc(1.6em + 10px); }
.refused { grid-template-columns: 1fr auto; margin-left: 1.6em; border-left: 2px solid var(--bad); padding-left: 10px; }
.refused .action { color: var(--soft); text-decoration: line-through; text-decoration-color: var(--faint); }
.refused .reason { grid-column: 1 / -1; }
.points { margin-right: 8px; border-radius: 99px; padding: 0 8px; font-size: 12px; font-weight: 600; }
.points:last-child { margin-right: 0; }
.points.good { color: var(--good); background: var(--good-soft); }
.points.bad { color: var(--bad); background: var(--bad-soft); }
.lesson { margin: 14px 0 4px; padding: 10px 16px 12px; border-radius: 10px; background: var(--page);
  font-size: 13.5px; }
.lesson .how { margin: 0; }
.lesson ul, .lesson ol { padding-left: 20px; }
h3 { font-size: 12px; font-weight: 400; color: var(--faint); }
.lesson > * + h3 { margin-top: 8px; }
"""
