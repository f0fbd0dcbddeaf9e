"""The processes, how their parts are wired, and the command line that starts them."""
