"""The page of one pool: what it says (look, facts, shares, charts, log, snippets), and what a person can do on it."""
