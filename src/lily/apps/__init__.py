"""One file = one process, and the command line that starts them."""
