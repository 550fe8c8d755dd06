"""`make screenshots`: takes pictures of the main pages for docs/img, in states that the app really reaches."""
