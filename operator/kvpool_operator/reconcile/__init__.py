"""One short story per kind: look, decide, act, say."""
