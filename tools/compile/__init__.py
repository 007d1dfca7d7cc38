"""The contract's compiler: spec/*.yaml in, generated/*.py out (design 3, design 8 habit 3).

read → structure → check → derive → emit. One module each; a fault never stops the search for the next one,
and all of them are printed sorted by file and line. Nothing here imports `fsm` or `generated`: the
compiler must work when they are broken.
"""
