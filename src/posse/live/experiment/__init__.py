"""One experiment of a node: decisions, reward window, history and its exchange."""
