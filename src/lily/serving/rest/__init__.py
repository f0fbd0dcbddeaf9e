"""The REST interface: the application, and the routes that read."""
