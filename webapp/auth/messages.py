"""What people read about passwords."""

from __future__ import annotations

from tasks.i18n import lazy

MADE_OF_NAMES = lazy(
    "This is made of your e-mail address or of the name of this site, which strangers try first. Choose another one."
)

TRIED_FIRST = lazy(
    "This is one of the passwords that strangers try first. A few words that do not belong together are good."
)
