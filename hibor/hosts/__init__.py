"""Engines a discovery scan can run on: `local` (embedded, default), `tasklite`, `dbos_host` (design 6
'Hosts').

Nothing is imported here, so that using one host never needs another one's engine.
"""
