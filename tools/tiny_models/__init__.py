"""Makes the small models of the `tiny` profile: synthetic speech, training on a CPU, export, evaluation, packing."""
