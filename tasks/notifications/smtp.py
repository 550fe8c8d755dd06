"""Sends a mail by SMTP. The key is the Message-ID, so that a mail that is sent twice is recognised as the same."""

from __future__ import annotations

import contextlib
import re
import smtplib
import ssl
from collections.abc import Iterator
from email.charset import QP, Charset
from email.header import Header
from email.mime.text import MIMEText
from email.utils import formataddr, formatdate, parseaddr
from typing import TYPE_CHECKING

from tasks.ledger.notifications.outbox import PendingNotification
from tasks.notifications.errors import NotSent
from tasks.notifications.mail_templates import one_line, render_mail
from tasks.notifications.signed_links import Links
from tasks.retry_after import retry_after_seconds

if TYPE_CHECKING:
    from tasks.settings import Settings

SMTP_SECONDS = 15.0  # for each exchange with the server, which the operator chose
PORTS = {"starttls": 587, "tls": 465, "none": 25}
WAIT = re.compile(
    r"(?:retry|try again|greylist(?:ed|ing)?|wait)(?: again)?(?: in| after| for)? (\d{1,6}) ?([smh])[a-z]*\b", re.I
)
UNITS = {"s": 1, "m": 60, "h": 3600}
READABLE = Charset("utf-8")
READABLE.body_encoding = QP  # otherwise the text is base64, which spam filters mistrust


def ascii_address(address: str) -> str:
    """Return the address in ASCII, as every mail server accepts it. Raises ValueError if it has no such form."""
    local, _, domain = address.rpartition("@")
    if not local or any(ord(character) <= 32 for character in address):
        raise ValueError
    return f"{local}@{domain.encode('idna').decode()}".encode("ascii").decode()


def asked_to_wait(reply: bytes | str) -> float | None:
    """Return the wait that a mail server asks for, in seconds, as in `450 try again in 15 minutes`; else None.

    SMTP defines no field for it, so this reads what greylisting servers write, which accept mail only at a second try.
    """
    text = reply.decode("ascii", "replace") if isinstance(reply, bytes) else reply
    header = re.search(r"retry-after:\s*([^\r\n]{1,40})", text, re.IGNORECASE)
    if header:
        return retry_after_seconds({"retry-after": header[1].strip()})
    wait = WAIT.search(text)
    return None if wait is None else float(wait[1]) * UNITS[wait[2][0].lower()] or None


class MailPost:
    """Sends mail. `context` None means that the certificates of this machine are trusted."""

    def __init__(self, settings: Settings, *, context: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._context = context or ssl.create_default_context()

    def send(self, notice: PendingNotification) -> None:
        """Send the mail once. Raises NotSent."""
        try:
            message = self._message(notice)
        except ValueError:  # an address or a header contains what it must not contain
            raise NotSent("address_wrong", for_good=True) from None
        try:
            with self._server() as server:
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, reply = next(iter(error.recipients.values()))
            raise NotSent("recipient_refused", for_good=code >= 500, wait_seconds=asked_to_wait(reply)) from None
        except smtplib.SMTPAuthenticationError:
            raise NotSent("auth") from None
        except smtplib.SMTPNotSupportedError:
            raise NotSent("not_supported") from None
        except smtplib.SMTPResponseException as error:
            for_good = isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= 500
            wait = asked_to_wait(error.smtp_error)
            raise NotSent(f"smtp_{error.smtp_code}", for_good=for_good, wait_seconds=wait) from None
        except smtplib.SMTPException:
            raise NotSent("connection_broken") from None
        except ssl.SSLError:
            raise NotSent("tls") from None
        except TimeoutError:
            raise NotSent("timeout") from None
        except OSError:
            raise NotSent("connect") from None

    def _message(self, notice: PendingNotification) -> MIMEText:
        mail = render_mail(notice.what, notice.facts, Links(self._settings))
        if mail is None:
            raise NotSent("no_words")  # enqueued by newer code, which may be running at the next try
        sender = parseaddr(self._settings.mail_from or "")
        # Not an EmailMessage: it adds a second space to a subject that is folded before an encoded word.
        message = MIMEText(mail.text, "plain", READABLE)  # type: ignore[arg-type]
        message["From"] = formataddr(sender)
        message["To"] = ascii_address(notice.target)
        message["Subject"] = Header(one_line(mail.subject), header_name="Subject").encode()
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{notice.key}@{sender[1].rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"  # so that no out-of-office replies come back
        return message

    @contextlib.contextmanager
    def _server(self) -> Iterator[smtplib.SMTP]:
        settings = self._settings
        host, port = settings.smtp_host or "", settings.smtp_port or PORTS[settings.smtp_security]
        if settings.smtp_security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=SMTP_SECONDS, context=self._context)
        else:
            server = smtplib.SMTP(host, port, timeout=SMTP_SECONDS)
        try:
            if settings.smtp_security == "starttls":
                server.starttls(context=self._context)
            if settings.smtp_user is not None and settings.smtp_password is not None:
                server.login(settings.smtp_user, settings.smtp_password.get_secret_value())
            yield server
            with contextlib.suppress(smtplib.SMTPException, OSError):
                server.quit()  # the mail was accepted, even if QUIT fails
        finally:
            server.close()
