"""Checks that the settings about mail, webhooks and alerts go together."""

from __future__ import annotations

from email.utils import parseaddr
from typing import TYPE_CHECKING

from tasks.notifications.webhook_signature import is_usable_secret
from tasks.notifications.webhook_target import TargetRefused, read_target

if TYPE_CHECKING:
    from tasks.settings import Settings

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


def problems(settings: Settings) -> list[str]:
    """Return a line for each combination of settings that cannot work."""
    return [*_mail(settings), *_alerts(settings), *_loopback(settings)]


def _mail(settings: Settings) -> list[str]:
    if not settings.can_mail:
        return ["ALERT_EMAIL needs SMTP_HOST. Set it, or use ALERT_WEBHOOK."] if settings.alert_email else []
    found = []
    if "@" not in parseaddr(settings.mail_from or "")[1]:
        found.append("MAIL_FROM is missing or no mail address. With SMTP_HOST it says whom mails are from.")
    if not settings.app_base_url:
        found.append("APP_BASE_URL is missing. With SMTP_HOST it is the start of the links in mails.")
    if settings.secret_key is None and not settings.waybill_demo:
        found.append("SECRET_KEY is missing. With SMTP_HOST the worker signs links in mails with it.")
    if (settings.smtp_user is None) != (settings.smtp_password is None):
        found.append("SMTP_USER and SMTP_PASSWORD go together. Set both or none.")
    if settings.smtp_security == "none" and settings.smtp_password and settings.smtp_host not in LOOPBACK_HOSTS:
        found.append("SMTP_SECURITY=none would send SMTP_PASSWORD in the clear. Use starttls or tls.")
    return found


def _alerts(settings: Settings) -> list[str]:
    if settings.alert_webhook is None:
        return []
    found = []
    try:
        read_target(settings.alert_webhook, loopback=settings.webhook_loopback)
    except TargetRefused:
        found.append("ALERT_WEBHOOK must be an https address without a password in it.")
    secret = settings.alert_webhook_secret
    if secret is None or not is_usable_secret(secret.get_secret_value()):
        found.append("ALERT_WEBHOOK_SECRET must be whsec_ and the base64 of at least 24 random bytes.")
    return found


def _loopback(settings: Settings) -> list[str]:
    if settings.webhook_loopback and not settings.waybill_demo:
        return ["WEBHOOK_LOOPBACK=1 is for the demo only: it lets people reach this server's own ports."]
    return []
