"""Sends webhooks. Of the response only the status and Retry-After are read.

Uses no proxy, follows no redirect, and connects only to an address that was checked. The certificate must be valid for
the host name.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime

import httpx2

from tasks.ledger.notifications.outbox import PendingNotification
from tasks.notifications.errors import GONE, NotSent
from tasks.notifications.webhook_signature import signed_headers
from tasks.notifications.webhook_target import Resolve, Target, TargetRefused, addresses_of, read_target
from tasks.retry_after import retry_after_seconds

EXCHANGE_SECONDS = 15.0  # by the wall clock, even if the server sends a byte at a time
CONNECT_SECONDS = 5.0
MAX_ADDRESSES = 4
HTTP_GONE = 410
USER_AGENT = "Waybill-Webhooks/1"


def body_of(notice: PendingNotification) -> str:
    """Return the body of the webhook: the same text at each try, since the receiver may compare."""
    payload = {"type": notice.what, "timestamp": notice.occurred_at.isoformat(), "data": dict(notice.facts)}
    return json.dumps(payload, ensure_ascii=True, separators=(",", ":"), sort_keys=True)


class WebhookPost:
    """Sends webhooks. `loopback` allows this machine as a target, by http too; for the demo and the tests."""

    def __init__(
        self,
        *,
        loopback: bool = False,
        context: ssl.SSLContext | None = None,
        resolve: Resolve = socket.getaddrinfo,
        exchange_seconds: float = EXCHANGE_SECONDS,
    ) -> None:
        self._loopback = loopback
        self._context = context or ssl.create_default_context()
        self._resolve = resolve
        self._exchange_seconds = exchange_seconds

    def send(self, notice: PendingNotification, secret: str) -> None:
        """Send the webhook once. Raises NotSent unless the response has a 2xx status."""
        body = body_of(notice)
        headers = {
            **signed_headers(notice.key, body, secret, datetime.now(UTC)),
            "content-type": "application/json",
            "user-agent": USER_AGENT,
        }
        try:
            target = read_target(notice.target, loopback=self._loopback)
            addresses = addresses_of(target, loopback=self._loopback, resolve=self._resolve)
        except TargetRefused as refused:
            raise NotSent(refused.code, for_good=refused.code != "host_unknown") from None
        try:
            status, wait = asyncio.run(self._within_time(target, addresses, headers, body.encode()))
        except TimeoutError:
            raise NotSent("timeout") from None
        if status == HTTP_GONE:
            raise NotSent(GONE, for_good=True)
        if 300 <= status < 400:
            raise NotSent("redirect", wait_seconds=wait)
        if not 200 <= status < 300:
            raise NotSent(f"http_{status}", wait_seconds=wait)

    async def _within_time(
        self, target: Target, addresses: Sequence[str], headers: dict[str, str], body: bytes
    ) -> tuple[int, float | None]:
        async with (
            asyncio.timeout(self._exchange_seconds),
            httpx2.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                verify=self._context,
                timeout=httpx2.Timeout(self._exchange_seconds, connect=CONNECT_SECONDS),
            ) as client,
        ):
            return await self._exchange(client, target, addresses[:MAX_ADDRESSES], headers, body)

    async def _exchange(
        self,
        client: httpx2.AsyncClient,
        target: Target,
        addresses: Sequence[str],
        headers: dict[str, str],
        body: bytes,
    ) -> tuple[int, float | None]:
        """Return the status from the first address that accepts a connection, and the wait that it asks for."""
        failure = "connect"
        for address in addresses:
            request = client.build_request(
                "POST",
                httpx2.URL(scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode()),
                headers={**headers, "host": target.netloc},
                content=body,
                extensions={"sni_hostname": target.host},
            )
            try:
                response = await client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = "tls" if _is_tls(error) else "connect"
                continue  # nothing was sent, so the next address may be tried
            except httpx2.TimeoutException:
                raise NotSent("timeout") from None
            except httpx2.HTTPError:
                raise NotSent("connection_broken") from None
            await response.aclose()
            return int(response.status_code), retry_after_seconds(response.headers)
        raise NotSent(failure)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
