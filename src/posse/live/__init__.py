"""Live agents: one a site, exchanging evidence over an unreliable network."""
