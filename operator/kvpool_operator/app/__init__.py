"""kopf wiring, settings, metrics and health: the process around the reconcilers."""
