"""One run: preflight, discovery, selection, the two lanes, and how it is told."""
