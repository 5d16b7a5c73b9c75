"""vLLM for CPU and a tiny model: what tests and the demo run as an engine.

Nothing of this is part of what users run: they bring the vLLM of their NPUs. Both parts are made once per content and
kept outside the clone.
"""

from devcluster.engine.model import ensure_model
from devcluster.engine.site_packages import ensure_site_packages

__all__ = ["ensure_model", "ensure_site_packages"]
