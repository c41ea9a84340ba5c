"""Recognition engines behind ports, the catalogue that pins their files, and the pool that owns them."""
