"""Pure builders: decisions in, Kubernetes objects as plain dicts out."""
