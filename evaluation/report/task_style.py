"""How a task graph looks, beyond the style of the page: its boxes and edges, the timeline, the sections of nodes."""

TASK_STYLE = """\
.graph { max-height: 760px; overflow: auto; }
.graph svg { min-width: 640px; }
.sign { color: var(--mark, var(--faint)); margin-right: 7px; }
.gone { --mark: var(--faint); }
.task rect { fill: var(--tint, var(--card)); stroke: var(--mark, var(--faint)); stroke-width: 1.2; }
.task.target rect { stroke-width: 2.5; }
.task.goal rect { stroke-width: 3; }
.task.gone rect { stroke-dasharray: 4 4; fill: var(--card); }
.task.gone .box { opacity: .55; text-decoration: line-through; }
.task.revised .box { border-left: 4px solid var(--blue); }
.box { height: 100%; padding: 7px 11px; border-radius: 9px; overflow: hidden; font-size: 12.5px; line-height: 17px; }
.box p { display: flex; justify-content: space-between; gap: 8px; white-space: nowrap; }
.box b { color: var(--mark, var(--soft)); overflow: hidden; text-overflow: ellipsis; }
.box small { color: var(--soft); font-size: 11px; }
.box span { display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical; overflow: hidden; }
.box.dense { padding: 4px 8px; font-size: 12px; }
.task.waiting .box span { color: var(--soft); }
.edge { fill: none; stroke: var(--mark, var(--faint)); stroke-width: 1.4; opacity: .6; }
.dense .edge { stroke-width: 1; opacity: .25; }
.edge.waiting, .edge.gone { stroke-dasharray: 4 4; }
.revised-key, .goal-key { display: inline-block; margin-right: 7px; width: 12px; height: 10px; border-radius: 3px; }
.revised-key { border-left: 4px solid var(--blue); border-radius: 0; width: 5px; }
.goal-key { border: 2.5px solid var(--faint); }
.timeline { min-width: 640px; }
.timeline .axis, .timeline .whole { stroke-width: 1; }
.timeline text { stroke: none; fill: var(--soft); }
.bar-line { fill: none; stroke: var(--mark, var(--faint)); }
.bar-line.lasting { opacity: .25; }
.tasks .subtask { margin-top: 10px; padding-top: 10px; border-top: 1px solid var(--line); }
.tasks .subtask:first-child { border: 0; padding-top: 0; margin-top: 0; }
.tasks .subtask > summary { flex-wrap: wrap; gap: 0 10px; }
.tasks .subtask > summary .id { font-weight: 600; }
.tasks .subtask > summary .condition { flex: 1 1 60%; font-weight: 400; }
.tasks .subtask > summary .told { flex: 1 1 100%; color: var(--soft); font-size: 13px; }
.tasks .subtask:not([open]) > summary .condition, .tasks .subtask:not([open]) > summary .id {
  display: -webkit-box; -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; }
.tasks .tasks { margin: 10px 0 0 32px; }
.tasks .subtask.gone .condition { text-decoration: line-through; color: var(--soft); }
.tasks .subtask[open] > summary .told { display: none; }
.tasks .subtask > summary { position: relative; padding-right: 22px; }
.tasks .subtask > summary::after { position: absolute; right: 0; top: 0; }
.tasks .subtask > .how.back { margin-left: 32px; }
.tasks .legend { margin-top: 10px; margin-bottom: 8px; }
.tasks .waiting .mark { font-size: 0; }
.revision { color: var(--blue); font-size: 13.5px; margin-top: 8px; }
"""
