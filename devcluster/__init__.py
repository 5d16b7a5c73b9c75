"""A Kubernetes for development and tests on one machine, built from published sources and kept outside the clone.

Run it as ``python3 -m devcluster``. It uses nothing but the standard library, so that it can make the
environments that everything else needs.
"""
