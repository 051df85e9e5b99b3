"""From agent.toml to a running node: settings, how they are checked, wired and reloaded."""
