"""The HTTP server of each web process: waitress's HTTP, with deadlines and limits.

gunicorn stays the parent: it forks, recycles and stops the processes. A slow or broken client costs a file descriptor
for a limited time, and never a thread.
"""
