"""A store member of its own, so that blocks outlive the engine that stored them: `python3 pool.py BYTES`."""

import os
import signal
import sys

from mooncake.store import MooncakeDistributedStore

store = MooncakeDistributedStore()
code = store.setup("127.0.0.1", "P2PHANDSHAKE", int(sys.argv[1]), 16 << 20, "tcp", "", os.environ["MOONCAKE_MASTER"])
if code != 0:
    sys.exit(f"setup failed with code {code}")
signal.sigwait({signal.SIGTERM, signal.SIGINT})
store.close()
