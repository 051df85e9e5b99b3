"""Security: certificates of agents, and the signatures made with them."""
