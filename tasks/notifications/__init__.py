"""Sends notifications: e-mail by SMTP, and webhooks by the Standard Webhooks specification.

The rows are in `tasks.ledger.notifications.outbox`. A new kind of mail is a function in `mail_templates`.
"""
