"""Settings of an agent process from agent.toml, validated at start."""
