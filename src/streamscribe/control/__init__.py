"""The operator's side: keys and tenants."""
