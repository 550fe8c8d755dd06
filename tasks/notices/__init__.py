"""Telling people and programs outside: mail by SMTP, webhooks as the Standard Webhooks specification has them.

What is owed stands in `tasks.ledger.notices`; here it is made and sent. A new sort of mail is a function in `mails`.
"""
