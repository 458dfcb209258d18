"""The page of text tokens: how they are counted now, what it cost, and a playground."""
