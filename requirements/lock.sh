#!/bin/sh
# Resolve requirements/*.in into hash-pinned *.txt, dev first: the others take its versions, so that the tests
# run what the images ship. Needs `uv` (UV=path). Settings of this machine (indexes, wheel folders) stay out.
set -eu
cd "$(dirname "$0")"
lock() {
  name=$1; shift
  env -u PIP_FIND_LINKS -u UV_FIND_LINKS UV_NO_CONFIG=1 UV_SYSTEM_CERTS=1 "${UV:-uv}" pip compile --quiet \
    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
    --python-version 3.11 --python-platform "${PLATFORM:-x86_64-unknown-linux-gnu}" "$@" "$name.in" -o "$name.txt"
}
lock dev
for name in operator router mooncake-cpu; do lock "$name" -c dev.txt; done
PLATFORM=aarch64-manylinux_2_35 lock mooncake-npu -c dev.txt
