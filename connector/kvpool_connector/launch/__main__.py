"""`python3 -m kvpool_connector.launch`."""

import sys

from kvpool_connector.launch.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
