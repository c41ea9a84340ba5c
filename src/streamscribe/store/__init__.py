"""Where tenants, their keys and their sessions are kept: a contract each, several adapters."""
