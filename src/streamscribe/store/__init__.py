"""Where tenants and keys are kept, one contract, several adapters."""
