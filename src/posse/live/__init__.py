"""Live agents: at each site one agent chooses arms for an application and learns from rewards."""
