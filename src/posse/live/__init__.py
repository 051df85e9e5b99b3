"""Live agents: one a site, learning from its own rewards and its neighbours' evidence."""
