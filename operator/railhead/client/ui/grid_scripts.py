"""The JavaScript of the tables: constants, into which no data is put. NiceGUI runs what stands below a key that begins
with a colon; data is sent as values only.
"""

from __future__ import annotations

import json

from railhead.client.ui.look import OTHER_PHASE, PHASES

ROW_ID = "(p) => p.data.id"
JOB_PLACE = "'/jobs/' + encodeURIComponent(p.data.namespace) + '/' + encodeURIComponent(p.data.name)"
# An element with text in it: AG Grid inserts it as it is, and no text of it becomes HTML.
JOB_LINK = (
    "(p) => { const a = document.createElement('a');"
    f" a.href = {JOB_PLACE}; a.textContent = p.value; a.tabIndex = -1; return a; }}"
)
RUN_PLACE = "'/runs/' + p.data.storage + '/' + encodeURIComponent(p.data.name)"
RUN_LINK = JOB_LINK.replace(JOB_PLACE, RUN_PLACE)
OPEN_RUN_BY_ENTER = f"(p) => {{ if (p.event?.key === 'Enter') window.location.assign({RUN_PLACE}); }}"
OPEN_BY_ENTER = f"(p) => {{ if (p.event?.key === 'Enter') window.location.assign({JOB_PLACE}); }}"
PROGRESS = (
    "(p) => { const d = document.createElement('div'); d.className = 'rh-bar';"
    " const s = document.createElement('span'); s.textContent = p.data.progress;"
    " if (p.value !== null && p.value !== undefined) { const t = document.createElement('div');"
    " t.className = 'rh-track'; const f = document.createElement('div'); f.className = 'rh-fill';"
    " f.style.width = Math.max(0, Math.min(100, p.value)) + '%'; t.appendChild(f); d.appendChild(t); }"
    " d.appendChild(s); return d; }"
)
_DURATION = (
    "let s = Math.max(0, Math.round(v)); const u = [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']];"
    " for (let i = 0; i < 3; i++) { if (s >= u[i][0]) { const n = Math.floor(s / u[i][0]);"
    " const r = Math.floor((s % u[i][0]) / u[i + 1][0]);"
    " return n + u[i][1] + (r && !(i === 2 && s >= 600) ? r + u[i + 1][1] : ''); } } return s + 's';"
)
DURATION = f"(p) => {{ const v = p.value; if (v === null || v === undefined) return ''; {_DURATION} }}"
AGE = f"(p) => {{ if (!p.value) return ''; const v = (Date.now() - p.value) / 1000; {_DURATION} }}"
PERCENT = "(p) => p.value === null || p.value === undefined ? '' : p.value + '%'"
PHASE = (
    f"(p) => {{ const c = {json.dumps(dict(PHASES))}; const s = document.createElement('span');"
    f" s.className = 'rh-badge'; s.style.background = c[p.value] || '{OTHER_PHASE}';"
    " s.textContent = p.value; return s; }"
)
TOOLTIP = "(p) => p.value"
# Pixels, below which only the columns that say most are shown.
NARROW = 720


def hide_when_narrow(columns: list[str]) -> str:
    """Returns the handler that shows these columns, constants of ours, only where there is room."""
    return f"(p) => p.api.setColumnsVisible({json.dumps(columns)}, p.clientWidth > {NARROW})"
