"""`make screenshots`: the main pages as pictures in docs/img, made by the app itself over states it really is in."""
