"""`make screenshots`: the main pages as pictures in docs/img. Every page is the app's own, over states it really is in."""
