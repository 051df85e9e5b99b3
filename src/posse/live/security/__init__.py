"""Security: certificates and digital signatures."""
