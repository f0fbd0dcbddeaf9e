"""What tests share: builders, the reference model, real services, and `eventually`."""
