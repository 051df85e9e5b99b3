"""One live agent without I/O: action selection, posterior, evidence, verdicts."""
