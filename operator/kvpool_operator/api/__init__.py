"""The API: pydantic models of the three kinds, conditions, reasons, names, and the CRDs generated from them."""

GROUP = "kvpool.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
