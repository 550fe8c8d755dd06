"""The result on the page and as a file, and the original document: readable, and never active."""

from __future__ import annotations

import codecs
import csv
import io
import re
import uuid
from pathlib import Path
from urllib.parse import unquote

import pytest
from sqlalchemy import update

from tasks.database import Database
from tasks.ledger.models import Document
from tests.support.browser.html import live_parts
from tests.web.conftest import Browser, Person, WebHarness, job_id_in
from webapp.jobs.results.html import TAGS, summary_html

FILES = Path(__file__).parents[3] / "support" / "files"
HOSTILE = (FILES / "W07_xss_payloads.md").read_text()
INJECTED = (FILES / "W08_injection_markdown_image.txt").read_text()


@pytest.mark.parametrize("text", [HOSTILE, INJECTED], ids=["W07", "W08"])
def test_a_hostile_summary_is_text_on_every_page(ada: Person, bench: WebHarness, text: str) -> None:
    job_id = bench.succeeded(text, title=text[:200])
    for path in ("/", f"/jobs/{job_id}", f"/jobs/{job_id}/status"):
        page = ada.get(path).text
        assert live_parts(page) == []
        assert page.count("<title>") <= 1
    assert "window.__xss" in ada.get(f"/jobs/{job_id}").text or text is INJECTED


def test_without_the_safe_rendering_the_payloads_are_found(
    ada: Person, bench: WebHarness, monkeypatch: pytest.MonkeyPatch, app
) -> None:
    """Check the negative control: without the safe rendering, the payloads are active."""
    from markupsafe import Markup

    monkeypatch.setitem(app.jinja_env.filters, "summary_html", Markup)
    assert len(live_parts(ada.get(f"/jobs/{bench.succeeded(HOSTILE)}").text)) >= 3


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("# One", "<h3>One</h3>"),
        ("###### Six", "<h3>Six</h3>"),
        ("# A\n### B\n## C", "<h3>A</h3>\n<h4>B</h4>\n<h4>C</h4>"),
        ("**b** *i* `c` ~~s~~", "<p><strong>b</strong> <em>i</em> <code>c</code> <s>s</s></p>"),
        ("[the minutes](https://example.org/m)", "<p>the minutes (https://example.org/m)</p>"),
        ("[**bold** link](https://a.example 'title')", "<p><strong>bold</strong> link (https://a.example)</p>"),
        ("<https://example.org/>", "<p>https://example.org/</p>"),
        ("![chart](http://127.0.0.1:9/c.png)", "<p>chart (http://127.0.0.1:9/c.png)</p>"),
        ("![](http://127.0.0.1:9/c.png)", "<p>http://127.0.0.1:9/c.png</p>"),
        ("[![i](http://a.example/i)](http://b.example)", "<p>i (http://a.example/i) (http://b.example)</p>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("<b onclick=x hx-get=/logout>b</b>", "<p>&lt;b onclick=x hx-get=/logout&gt;b&lt;/b&gt;</p>"),
        ("a\n\n---\n\nb", "<p>a</p>\n<hr>\n<p>b</p>"),
        ("&lt;script&gt;", "<p>&lt;script&gt;</p>"),
    ],
    ids=range(14),
)
def test_markdown_becomes_a_few_plain_tags(markdown: str, html: str) -> None:
    assert str(summary_html(markdown)).strip() == html


HOSTILE_MARKUP = [
    *(
        "[x](javascript&colon;alert(1))",
        "[x](java\nscript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](JaVaScRiPt:x)",
    ),
    *("[x](data:text/html;base64,PHNjcmlwdD4=)", "[x](vbscript:x)", "[x](file:///etc/passwd)", "<javascript:alert(1)>"),
    *(
        "[x]: javascript:alert(1)\n\n[x]",
        "![x](javascript:alert(1))",
        "![x][y]\n\n[y]: //evil.example/p.png",
        "[x](//evil.example)",
    ),
    *(
        "<div hx-get=/logout hx-trigger=load>x</div>",
        "<p data-hx-post=/account/delete data-hx-trigger=load>x</p>",
        "<a hx-on:click=x()>y</a>",
    ),
    *(
        "<p data-poll data-copy=text>x</p>",
        "<form action=/logout method=post><button>x</button></form>",
        "<base href=//evil.example>",
    ),
    *(
        "<svg><script>alert(1)</script></svg>",
        "<math><mtext><img src=x onerror=x></mtext></math>",
        "<style>@import '//evil.example'</style>",
    ),
    *(
        "<meta http-equiv=refresh content='0;url=//evil.example'>",
        "<link rel=stylesheet href=//evil.example>",
        "<iframe srcdoc='<p>'></iframe>",
    ),
    *(
        "<!--><img src=x onerror=x>-->",
        "<![CDATA[<img src=x>]]>",
        "<?php x ?>",
        "<noscript><p title='</noscript><img src=x onerror=x>'>",
    ),
    *(
        "</div></section><img src=x onerror=x>",
        "</textarea><img src=x onerror=x>",
        "</title><script>alert(1)</script>",
        "```\n</code></pre><img src=x>\n```",
    ),
    *(
        "| a |\n|---|\n| <img src=x onerror=x> ![x](//evil.example) |",
        "~~[x](//evil.example 'a\" onload=\"x')~~",
        "`<img src=x>`",
        "[![x](//a.example)](//b.example)",
    ),
    *(
        "https://evil.example/?q=SECRET",
        "[a&#x202e;b](//evil.example)",
        "[x](//evil.example?q=SECRET){hx-get=/logout}",
        "{{ config }} {% raw %} ${7*7}",
    ),
]


@pytest.mark.parametrize("markup", HOSTILE_MARKUP, ids=range(len(HOSTILE_MARKUP)))
def test_no_markup_of_a_result_can_act(markup: str) -> None:
    """Check that Markdown and HTML that run a script, send a form, use htmx or call another host become text."""
    html = str(summary_html(f"{markup}\n\nThe end."))
    assert not re.search(r"<\w+\s", html), "no tag of a result has an attribute"
    assert set(re.findall(r"<(\w+)", html)) <= TAGS
    assert "<p>The end.</p>" in html, "and nothing behind it is lost"


def test_no_markup_of_a_result_or_a_title_acts_on_a_page(ada: Person, bench: WebHarness) -> None:
    everything = "\n\n".join(HOSTILE_MARKUP)
    shown = [bench.succeeded(everything, title=everything[at : at + 200]) for at in range(0, len(everything), 200)]
    for path in ("/", f"/jobs/{shown[0]}/status", *(f"/jobs/{job_id}" for job_id in shown[:4])):
        assert live_parts(ada.get(path).text) == [], path
    for job_id in shown:
        title = re.search(r"<h1[^>]*>(.*?)</h1>", ada.get(f"/jobs/{job_id}/status").text, re.DOTALL)
        assert title and "<" not in title[1]


def test_nothing_but_the_listed_tags_comes_out() -> None:
    html = str(summary_html(HOSTILE + INJECTED + "\n\n|a|b|\n|:-|-:|\n|1|2|\n\n> q\n\n1. x\n\n```html\n<i>\n```\n"))
    assert set(re.findall(r"<(\w+)", html)) <= TAGS
    assert not re.findall(r"<\w+\s", html), "no tag has an attribute"


@pytest.mark.parametrize("text", ["[" * 5000, "> " * 3000, "*a " * 5000, "- " * 2000 + "x"], ids=range(4))
def test_a_summary_made_to_be_slow_is_not(text: str) -> None:
    assert summary_html(text) is not None


def test_the_page_says_who_made_it_and_offers_the_file(ada: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded("The pier is **closed**.")
    page = ada.get(f"/jobs/{job_id}").text
    assert "Extract made on this server, without an AI service" in page
    assert "<strong>closed</strong>" in page and f'href="/jobs/{job_id}/result.md"' in page
    assert 'dir="auto" hx-ignore hx-disable' in page


def test_a_summary_that_was_cut_off_says_so(ada: Person, bench: WebHarness) -> None:
    whole, cut = (
        ada.get(f"/jobs/{bench.succeeded()}").text,
        ada.get(f"/jobs/{bench.succeeded(cut_off=True, fresh_run_key='x')}").text,
    )
    assert "Incomplete." in cut and "cut off by the AI service" in cut
    assert "Incomplete." not in whole


def test_the_summary_can_be_downloaded_under_a_name_in_any_letters(ada: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded("Закрыт.", title='Отчёт "порт".pdf\r\nX: y')
    answer = ada.get(f"/jobs/{job_id}/result.md")
    assert answer.data.decode() == "Закрыт."
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    header = answer.headers["Content-Disposition"]
    assert header.startswith('attachment; filename="') and "\n" not in header
    assert unquote(header.partition("filename*=UTF-8''")[2]) == 'Summary of Отчёт "порт".pdf X: y.md'


def test_there_is_no_file_before_there_is_a_summary(ada: Person, bench: WebHarness) -> None:
    assert ada.get(f"/jobs/{bench.job()}/result.md").status_code == 404


@pytest.mark.parametrize("name", ["фото.html", "a/b.html", "😀.html", 'q"uote.html', "\u202e.html"])
def test_the_original_comes_back_byte_for_byte_and_never_as_a_page(ada: Person, name: str) -> None:
    content = b"<!doctype html><script>alert(1)</script>"
    answer = ada.get(f"/jobs/{job_id_in(ada.upload(content, name))}/original")
    assert answer.data == content
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


UPLOADED = {
    "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><text>Some words.</text></svg>",
    "b.html": b"<!doctype html><script>alert(1)</script><p>Some words of a page.</p>",
    "c.xhtml": b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>Words</p></body></html>",
    "d.htm": b"<body onload=alert(1)>Words of a page</body>",
    "e.mhtml": b"MIME-Version: 1.0\nContent-Type: text/html\n\n<script>alert(1)</script> words",
    "f.txt": b"<html><head><title>x</title></head><body><script>alert(1)</script>Words</body></html>",
    'g"; filename=x.html': b"Some words to be read.",
    "h%0d%0aContent-Type: text%2fhtml.html": b"Some other words to be read.",
    "i\u202elmth.txt": b"Words behind a name that reads backwards.",
}


@pytest.mark.parametrize("name", UPLOADED, ids=ascii)
def test_what_was_uploaded_is_never_shown_as_a_page(ada: Person, name: str) -> None:
    """Check that uploads are only downloaded: on this site's origin, foreign HTML or SVG could act as the site."""
    sent = ada.upload(UPLOADED[name], name)
    if sent.status_code == 422:
        assert "picture" in sent.text or "file type" in sent.text
        return
    answer = ada.get(f"/jobs/{job_id_in(sent)}/original")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    header = answer.headers["Content-Disposition"]
    assert re.fullmatch(r"attachment; filename=\"[\w .()-]+\"; filename\*=UTF-8''[\w%.~-]+", header, re.ASCII), header
    assert not {"\r", "\n", "\u202e", "/"} & set(unquote(header.partition("''")[2]))


def test_a_deleted_original_is_said_to_be_gone(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    with database.transaction() as session:
        session.execute(update(Document).values(content=None))
    assert ada.get(f"/jobs/{job_id}/original").status_code == 410


def speaks_of_a_summary(page: str) -> bool:
    """Return True if the text of the page mentions a summary. Names of tags and classes do not count."""
    return re.search("summar", re.sub(r"<[^>]*>", "", page), re.IGNORECASE) is not None


TABLE = """| Who | What | By when |
| --- | --- | --- |
| Zoë | =HYPERLINK("http://127.0.0.1:9/?x","y") | +1 |
| <img src=x onerror=alert(1)> | a \\| b, "c" | @SUM(A1) |
| ![x](http://127.0.0.1:9/i.png) | [go](javascript:alert(1)) | -2 |"""


def test_action_items_are_a_table_on_the_page_and_a_file_for_a_spreadsheet(ada: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded(TABLE, workflow="action_items", options={}, title="Отчёт")
    page = ada.get(f"/jobs/{job_id}").text
    assert live_parts(page) == []
    assert '<h2 id="result-heading">Action items</h2>' in page and "Action items saved at" in page
    assert "<figure><table>" in page and page.count("<td>") == 9
    assert f'href="/jobs/{job_id}/result.csv"' in page
    assert not speaks_of_a_summary(page)

    answer = ada.get(f"/jobs/{job_id}/result.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    header = answer.headers["Content-Disposition"]
    assert header.startswith("attachment; ") and unquote(header).endswith("Action items of Отчёт.csv")
    assert answer.data.startswith(codecs.BOM_UTF8)
    head, *table = csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))
    assert head == ["Who", "What", "By when"]
    assert table == [
        ["Zoë", '\'=HYPERLINK("http://127.0.0.1:9/?x","y")', "'+1"],
        ["<img src=x onerror=alert(1)>", 'a | b, "c"', "'@SUM(A1)"],
        ["![x](http://127.0.0.1:9/i.png)", "[go](javascript:alert(1))", "'-2"],
    ]


def test_answers_are_shown_with_their_passages_and_are_no_table(ada: Person, bench: WebHarness) -> None:
    text = "**Who repairs it?**\n\nAnna does.\n\n> Anna repairs the pier.\n\n**Why?**\n\nNot answered."
    options = {"questions": ["Who repairs it?", "Why?"]}
    job_id = bench.succeeded(text, workflow="questions_answered", options=options)
    page = ada.get(f"/jobs/{job_id}").text
    assert '<h2 id="result-heading">Answers to questions</h2>' in page
    assert "<blockquote>\n<p>Anna repairs the pier.</p>" in page
    assert "result.csv" not in page and ada.get(f"/jobs/{job_id}/result.csv").status_code == 404
    answer = ada.get(f"/jobs/{job_id}/result.md")
    assert "Answers to questions of Harbour report.md" in unquote(answer.headers["Content-Disposition"])


def test_no_table_for_others_for_a_summary_or_before_the_end(ada: Person, bob: Person, bench: WebHarness) -> None:
    table = bench.succeeded(TABLE, workflow="action_items", options={})
    assert ada.get(f"/jobs/{table}/result.csv").status_code == 200
    assert bob.get(f"/jobs/{table}/result.csv").status_code == 404
    waiting = bench.job(workflow="action_items", options={})
    for job_id in (bench.succeeded(fresh_run_key="s"), waiting, uuid.uuid4()):
        assert ada.get(f"/jobs/{job_id}/result.csv").status_code == 404


def test_the_table_needs_a_sign_in(browser: Browser, bench: WebHarness) -> None:
    answer = browser.get(f"/jobs/{bench.succeeded(TABLE, workflow='action_items', options={})}/result.csv")
    assert answer.status_code == 302 and "/login" in answer.location


@pytest.mark.parametrize("workflow", ["action_items", "questions_answered", "one_that_is_gone"])
def test_no_page_of_other_work_speaks_of_a_summary(ada: Person, bench: WebHarness, workflow: str) -> None:
    options = {"questions": ["Why?"]} if workflow == "questions_answered" else {}
    job_id = bench.job(workflow=workflow, options=options)
    claim = bench.claim(job_id)
    for _ in ("claimed", "read"):
        page = ada.get(f"/jobs/{job_id}").text
        assert "Working on your document" in page or "being read" in page
        assert not speaks_of_a_summary(page)
        bench.read(claim)
