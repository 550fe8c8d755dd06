"""What stands between the network and the app in each web process: waitress's HTTP, with deadlines and bounds.

gunicorn stays the parent: it forks, recycles and stops the processes. A slow or unlucky client costs a file descriptor
for a bounded time, and never a thread.
"""
