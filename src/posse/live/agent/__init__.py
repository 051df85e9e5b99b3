"""A live agent: action selection, evidence, posteriors, site pooling and verdicts, without I/O."""
