"""The notification preferences of accounts, the notifications that still have to be sent, and alerts for operators."""
