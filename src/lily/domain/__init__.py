"""What metadata means: values in, values out; no I/O, no clock."""
