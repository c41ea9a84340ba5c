"""The page: static files without a build step, served by the gateway; nothing here is Python."""
