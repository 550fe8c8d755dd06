"""Telling people and programs outside: mail by SMTP, webhooks as the Standard Webhooks specification has them.

The rows are in `tasks.ledger.notifications.outbox`. A new kind of mail is a function in `mail_templates`.
"""
