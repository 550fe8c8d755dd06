"""Checks that users can sign in at the site's address: browsers keep its session cookie over https only."""

from __future__ import annotations

from urllib.parse import urlsplit

from tasks.preflight.report_line import Finding, Level, judge
from tasks.settings import Settings
from tasks.settings.connection_urls import plain_http_fault

QUESTION = "address of the site"


def finding(settings: Settings) -> Finding:
    """Return OK for https and for the demo, FAIL for plain http, and WARN for an address that works in part."""
    address = settings.app_base_url
    if settings.waybill_demo:
        return Finding(Level.OK, QUESTION, "a demo, over plain http")
    if address is None:
        remedy = "Set APP_BASE_URL to the https address that people open. Without https nobody can sign in"
        return Finding(Level.WARN, QUESTION, "APP_BASE_URL is not set", remedy)
    fault = plain_http_fault(address)
    if fault is not None:
        return Finding(Level.FAIL, QUESTION, "plain http", fault.rstrip("."))
    if urlsplit(address).scheme == "http":
        remedy = "It works in Firefox and Chrome; Safari keeps no cookie there. Others than you need an https address"
        return Finding(Level.WARN, QUESTION, "plain http, on this machine only", remedy)
    remedy = "Every visitor counts as the proxy in front, for all limits. Set PROXY_HOPS to the number of proxies"
    return Finding(
        judge(settings.proxy_hops > 0, Level.WARN), QUESTION, f"https, PROXY_HOPS={settings.proxy_hops}", remedy
    )
