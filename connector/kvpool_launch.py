"""The launcher as a script beside the package: `python3 /kvpool/kvpool_launch.py -- <vLLM's arguments>`.

Started by its path, Python puts this folder first on its own path and leaves PYTHONPATH, which belongs to the engine
image, as it is.
"""

import sys

from kvpool_connector.launch.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
