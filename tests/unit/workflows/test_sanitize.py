from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tasks.workflows.sanitize import sanitize
from webapp.jobs.results.html import summary_html

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
        ("A **https://evil.example/x** b", "A **[address removed]** b"),
        ("| https://evil.example/x | b |", "| [address removed] | b |"),
        ("[a](javascript:alert(1)) b", "a) b"),
        ("<javascript:alert(1)>", "‹(address removed)(1)>"),
        ("[a](data:text/html;base64,PHg+) b", "a b"),
        ("[a](//evil.example/x) //evil.example/y", "a [address removed]"),
        ("[a](ftp://evil.example) ftp://evil.example/x", "a [address removed]"),
        ("See evil.example/?q=secret, not 12.5/13.2 or and/or", "See [address removed], not 12.5/13.2 or and/or"),
        ("[a][1] and [b]\n\n[1]: https://evil.example/x\n[b]: <//evil.example> 'b'", "[a][1] and [b]"),
        ("[a](logout) [b](nowhere)", "a b"),
        ("See https://harbour.example/plan?q=secret", "See [address removed]"),
        ("See https://harbour.example/pla", "See [address removed]"),
        ("A note.[^1]\n\n[^1]: Page 3.", "A note.[^1]\n\n[^1]: Page 3."),
        ("<a href='//evil.example'>a</a> <p onclick=x()>b <svg/onload=x()>", "a</a> b"),
        ("The `<p>` and `<table>` tags", "The `<p>` and `<table>` tags"),
        ("<iframe src=x></iframe><script>y</script><base href=x>", "</iframe>y</script>"),
        ("<?<img src=x", "‹?‹img src=x"),
        ("<div\n<img src=//evil.example/x ", "‹div\n‹img src=(address removed)"),
        ("![a [b] c](x.png)", "!(a (b) c)(x.png)"),
        ("[a [b] c](&#104;ttp:\\//evil)", "(a (b) c)(&#104;ttp:\\//evil)"),
    ],
)
def test_only_what_the_document_says_may_be_pointed_to(answer: str, kept: str) -> None:
    assert sanitize(answer, DOCUMENT) == kept


PIECES = st.sampled_from(
    [
        *"[](){}<>!\\'\"#*_`|: \n.&;/?=", "[a]", "](", "![", "<img src=", "x.png", "[1]: ", "[1]", "<a href=", "\n\n",
        "    ", "> ", "- ", "http://evil.example/", "javascript:", "//evil.example", "https://harbour.example/plan",
        "&#104;ttp://e.example", "data:text/html,", "mailto:x@e.example",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_reader_of_markdown_finds_an_image_or_a_foreign_link_in_it(answer: str) -> None:
    reader = MarkdownIt("commonmark", {"html": True})
    reader.validateLink = lambda url: True  # type: ignore[method-assign]
    shown = reader.render(sanitize(answer, DOCUMENT))
    assert "<img" not in shown
    assert all(address in DOCUMENT for address in re.findall(r'href="([^"]*)"', shown))
    assert not re.search(r"<(?:a|img)\b", summary_html(sanitize(answer, DOCUMENT)))
