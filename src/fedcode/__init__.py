"""fedcode: federated learning that sends codebooks instead of weights."""
