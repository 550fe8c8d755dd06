from __future__ import annotations

import pytest

from tasks.intake import DocumentRefused
from tasks.intake.formats.html import html_to_text


@pytest.mark.parametrize(
    "markup",
    [
        "<script>X</script>", "<style>X</style>", "<template>X</template>", "<noscript>X</noscript>", "<!-- X -->",
        "<iframe>X</iframe>", "<svg><text>X</text></svg>", "<object>X</object>", "<img alt='X'>", "<input value='X'>",
        "<div hidden>X</div>", "<div hidden=until-found>X</div>", "<dialog>X</dialog>", "<p title='X'></p>",
        "<div style='display:none'>X</div>", "<div style='color:red; DISPLAY : None !important'>X</div>",
        "<div style='display:/**/none'>X</div>", "<p style='visibility:hidden'>X</p>", "<p style='opacity: 0.0'>X</p>",
        "<p style='font-size:0px'>X</p>", "<div hidden><p>X<b>X</b></p></div>", "<?php X ?>",
    ],
)  # fmt: skip
def test_what_nobody_sees_is_not_read(markup: str) -> None:
    assert html_to_text(f"<html><body>before {markup} after</body></html>").split() == ["before", "after"]


@pytest.mark.parametrize(
    "markup",
    [
        "<div style='opacity:0.5'>X</div>", "<div style='display:block'>X</div>", "<div aria-hidden=true>X</div>",
        "<details><summary>s</summary>X</details>", "<dialog open>X</dialog>", "<p style='font-size:10px'>X</p>",
        "<unknown>X</unknown>", "<textarea>X</textarea>", "<p onclick='alert(1)'>X",
    ],
)  # fmt: skip
def test_what_a_person_sees_is_read(markup: str) -> None:
    assert "X" in html_to_text(f"<html><body>{markup}</body></html>")


def test_the_shape_of_the_page_is_kept_in_lines() -> None:
    page = (
        "<title>T &amp; t</title><h1>Head</h1><p>one <b>bo</b>ld\n    line<br>next</p><ul><li>a<li><p>b</ul>"
        "<table><tr><td>1<td>2<tr><td><td>4</table><pre>  x\n    y</pre>Caf&eacute; &#8364;12"
    )
    assert html_to_text(page) == (
        "T & t\n\nHead\n\none bold line\nnext\n\n- a\n- b\n\n1\t2\n\t4\n\n  x\n    y\n\nCafé €12"
    )


def test_nothing_is_fetched_and_no_entity_is_made_up() -> None:
    page = '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><html><body><p>a &x; b</p></body></html>'
    assert "root:" not in html_to_text(page)


def test_a_page_that_cannot_be_read_to_its_end_is_refused() -> None:
    assert html_to_text("<div>" * 500 + "deep" + "</div>" * 500) == "deep"
    with pytest.raises(DocumentRefused, match="damaged"):
        html_to_text("<div>" * 50_000 + "deep")
