"""The loops that repair and clean up: reconciler, replayer, response cleanup and alert monitor."""
