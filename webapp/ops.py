"""What an operator sees of the whole site. Thin: the figures come from the ledger, the guard from `operators`."""

from __future__ import annotations

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

ops = Blueprint("ops", __name__, url_prefix="/ops")


@ops.get("")
def overview() -> ResponseReturnValue:
    """How the site stands now."""
    return render_template("ops/overview.html")
