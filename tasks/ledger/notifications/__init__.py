"""Who wants to be notified of what, and the notifications that still have to be sent."""
