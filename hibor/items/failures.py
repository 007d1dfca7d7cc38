"""The one exception an effect ends with: a failure word, never a code.

The word is looked up at the item's node (`spec/failures.yaml`); an effect does not know what its failure
means for
the item (design 2: an effect returns an outcome, the table decides).
"""

from __future__ import annotations


class EffectFailure(Exception):
    """An effect could not do its work.

    `failure` is a word of `spec/failures.yaml`, or a code of FAIL class when the effect is a check of the
    file
    itself (`code` set); `detail` is a redacted sentence for people.
    """

    def __init__(self, failure: str, detail: str, *, code: str | None = None) -> None:
        super().__init__(f"{failure}: {detail}")
        self.failure = failure
        self.detail = detail
        self.code = code
