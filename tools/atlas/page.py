"""The atlas as one self-contained page that opens offline."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from tests.faults.cuts import CUT
from tests.faults.plays import PLAYS
from tools.atlas.about import ABOUT
from tools.atlas.squares import COLUMNS, Atlas

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Crash atlas</title>
<style>
body{font:14px/1.45 system-ui,sans-serif;margin:2rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}th,td{border:1px solid #d0d7de;padding:.3rem .5rem;vertical-
align:top;text-align:left}
thead th{position:sticky;top:0;background:#f6f8fa}td.settled{background:#eaf6ec}td.asked{background:#fff6dd}
.index{columns:2;list-style:none;padding:0}.key{padding:.1rem .5rem;border:1px solid #d0d7de}
.key.settled{background:#eaf6ec;color:#1b1f24}.key.asked{background:#fff6dd;color:#1b1f24}
td.none{color:#8c959f}small{color:#57606a}.zero{color:#1a7f37}.broken{color:#b42318}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}thead th{background:#161b22}
td.settled{background:#12261a}td.asked{background:#2b2411}th,td{border-color:#30363d}}
</style>
<h1>Crash atlas</h1>
<p>An item, a command or a whole run is ended before, inside and after every durable step. Each disk that a
power cut or a kill could leave is recovered once, of a command by giving it again; the square says what
recovery did → where the items stand [quota; file]. <em>Unknown tap</em>: between
TRIGGER_INTENT and the quota terminal nobody knows whether the tap happened; both cases are recovered.
<em>Killed, then cut</em>: the process is killed, a recovery goes on with what the kernel still held, and then
the power fails.</p>
<p>{% for name, count in document.counts.items() %}<b class="{{ 'zero' if count == 0 }}">{{ count }}</b>
{{ name.replace('_', ' ') }}{{ ' · ' if not loop.last }}{% endfor %}</p>
{% if document.mutants %}<p>Broken variants: {% for name, dead in document.mutants.items() %}
<span class="{{ 'zero' if dead else 'broken' }}">{{ name }}: {{ 'killed' if dead else 'survived' }}</span>
{{- ' · ' if not loop.last }}{% endfor %}</p>{% endif %}
{% for text in atlas.violations %}<p class="broken">{{ text }}</p>{% endfor %}
{% for text in atlas.empty %}<p class="broken">empty: {{ text }}</p>{% endfor %}
<p><span class="key settled">settled without the phone</span>
<span class="key asked">the phone is looked at</span>
<span class="key none">cannot be, or was not drawn</span></p>
<ul class="index">{% for play in plays %}<li><a href="#{{ loop.index }}">{{ play }}</a>
<small>{{ about.get(play, '') }}</small></li>{% endfor %}</ul>
{% for play, rows in plays.items() %}<h2 id="{{ loop.index }}">{{ play }}</h2><p>{{ about.get(play, '') }}</p>
<table><thead><tr><th>step</th>{% for column in columns %}<th>{{ column }}</th>{% endfor %}</tr></thead>
{% for row in rows %}<tr><th>{{ row.step }}</th>{% for column in columns %}{% set square = row.squares[column]
%}
<td class="{{ 'none' if not square.visits else 'asked' if 'ask_phone' in square.told() else 'settled' }}">
{{ square.told() if square.visits else blank(play, column) }}
{% if square.visits %}<br><small>{{ square.images|length }} images, {{ square.visits }} cases</small>{% endif
%}</td>
{% endfor %}</tr>{% endfor %}</table>{% endfor %}
<p><small>spec {{ document.spec_sha256 }}, every {{ document.every }}. torn image, {{ document.seconds }}
s</small></p>
</html>
"""


def page(atlas: Atlas, document: dict[str, Any]) -> str:
    """The page; everything shown is escaped."""
    plays: dict[str, list[Any]] = {}
    for row in atlas.rows:
        plays.setdefault(row.play, []).append(row)
    template = Environment(autoescape=True).from_string(_PAGE)
    items = {play.name for play in PLAYS}

    def blank(play: str, column: str) -> str:
        """Why a square has no visit: of commands and whole runs a cut after a kill is not drawn."""
        drawn = column != CUT or (play in items and document["every"] == 1)
        return "cannot be" if drawn else "not drawn"

    return template.render(
        atlas=atlas, document=document, plays=plays, columns=COLUMNS, about=ABOUT, blank=blank
    )
