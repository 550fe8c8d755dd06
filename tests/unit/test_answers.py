from __future__ import annotations

import pytest

from tasks.workflows.answers import tidy

DOCUMENT = "The plan is at https://harbour.example/plan and nowhere else. Write to mailto:pier@harbour.example."


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("See https://harbour.example/plan.", "See https://harbour.example/plan."),
        ("See [the plan](https://harbour.example/plan).", "See [the plan](https://harbour.example/plan)."),
        ("See https://evil.example/?q=secret.", "See [address removed]."),
        ("See [the plan](https://evil.example/?q=secret).", "See the plan."),
        ("Done ![x](https://evil.example/?q=secret)", "Done x"),
        ("Done ![](http://127.0.0.1:9/a.png) here", "Done  here"),
        ("Done <img src=x onerror=alert(1)> here", "Done  here"),
        ("Done ![x][ref]", "Done x"),
        ("Go to www.evil.example now", "Go to [address removed] now"),
        ("Nothing to remove [here] (or there).", "Nothing to remove [here] (or there)."),
    ],
)
def test_only_what_the_document_says_may_be_pointed_to(answer: str, kept: str) -> None:
    assert tidy(answer, DOCUMENT) == kept
