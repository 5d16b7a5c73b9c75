# The images of kvpool, one per target: operator, router, connector, mooncake.
#
# BASE is the one image that the network may be asked for: any Linux with Python 3.11 as python3 (and, for mooncake,
# libibverbs1, libnuma1 and libcurl4). Packages come from the build context `wheels`: the wheels of
# requirements/TARGET.txt and requirements/pip.txt, downloaded beforehand, so that a build needs no package index:
#
#   pip download --no-deps --require-hashes -r requirements/operator.txt -d wheels
#   pip download --no-deps --require-hashes -r requirements/pip.txt -d wheels
#   docker buildx build --target operator --build-context wheels=wheels -t kvpool/operator .
ARG BASE=python:3.11-slim-bookworm

# --- sources: compiled here, because the images' user cannot write byte code --------------------------------------
FROM ${BASE} AS operator-source
COPY connector/kvpool_connector/__init__.py /opt/kvpool/source/kvpool_connector/
COPY connector/kvpool_connector/contract /opt/kvpool/source/kvpool_connector/contract
COPY operator/kvpool_operator /opt/kvpool/source/kvpool_operator
COPY devcluster/images/build_files.py /build_files.py
RUN python3 /build_files.py script kvpool_operator.app.main:main /opt/kvpool/bin/kvpool-operator \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kvpool/source

FROM ${BASE} AS router-source
COPY router/kvpool_router /opt/kvpool/source/kvpool_router
COPY devcluster/images/build_files.py /build_files.py
RUN python3 /build_files.py script kvpool_router.main:main /opt/kvpool/bin/kvpool-router \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kvpool/source

FROM ${BASE} AS connector-source
ARG VERSION=0.0.0
COPY connector /opt/kvpool
COPY devcluster/images/build_files.py /build_files.py
RUN python3 /build_files.py dist-info kvpool_connector ${VERSION} kvpool_connector.plugin:register /opt/kvpool

# --- images: pip runs from its own wheel and stays in none ------------------------------------------------------
FROM ${BASE} AS operator
ENV PATH=/opt/kvpool/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/kvpool/source:/opt/kvpool/packages \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY requirements/operator.txt /opt/kvpool/requirements.txt
RUN --mount=type=bind,from=wheels,target=/wheels \
    python3 "$(ls /wheels/pip-*.whl)/pip" install --quiet --no-cache-dir --no-index --find-links /wheels --no-deps \
      --require-hashes --no-compile --root-user-action ignore --target /opt/kvpool/packages -r /opt/kvpool/requirements.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kvpool/packages
COPY --from=operator-source /opt/kvpool /opt/kvpool
USER 65532:65532
ENTRYPOINT ["kvpool-operator"]

FROM ${BASE} AS router
ENV PATH=/opt/kvpool/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/kvpool/source:/opt/kvpool/packages \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY requirements/router.txt /opt/kvpool/requirements.txt
RUN --mount=type=bind,from=wheels,target=/wheels \
    python3 "$(ls /wheels/pip-*.whl)/pip" install --quiet --no-cache-dir --no-index --find-links /wheels --no-deps \
      --require-hashes --no-compile --root-user-action ignore --target /opt/kvpool/packages -r /opt/kvpool/requirements.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/kvpool/packages
COPY --from=router-source /opt/kvpool /opt/kvpool
USER 65532:65532
ENTRYPOINT ["kvpool-router"]

# A carrier: an init container copies /opt/kvpool into the engine's pod. No byte code: the engine's Python is unknown.
FROM ${BASE} AS connector
COPY --from=connector-source /opt/kvpool /opt/kvpool
USER 65532:65532
CMD ["cp", "-r", "/opt/kvpool/.", "/kvpool/"]

# Root unless the pod says otherwise: a member that pins memory or opens a NIC's device needs it, a master does not.
FROM ${BASE} AS mooncake
ENV PATH=/opt/mooncake/mooncake:/opt/mooncake/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/mooncake \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# npu for Ascend nodes, cpu for machines without any accelerator.
ARG MOONCAKE=npu
COPY requirements/mooncake-${MOONCAKE}.txt /opt/mooncake/requirements.txt
RUN --mount=type=bind,from=wheels,target=/wheels \
    python3 "$(ls /wheels/pip-*.whl)/pip" install --quiet --no-cache-dir --no-index --find-links /wheels --no-deps \
      --require-hashes --no-compile --root-user-action ignore --target /opt/mooncake -r /opt/mooncake/requirements.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/mooncake \
 && rm -f /opt/mooncake/mooncake/transfer_engine_bench \
 && chmod 0755 /opt/mooncake/mooncake/mooncake_master /opt/mooncake/mooncake/mooncake_client
CMD ["mooncake_master"]
