"""Gateway: HTTP, server-sent events and the approvals page. Empty so far."""
