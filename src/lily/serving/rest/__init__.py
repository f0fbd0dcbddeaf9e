"""The REST interface: the application, and every route but those that make events."""
