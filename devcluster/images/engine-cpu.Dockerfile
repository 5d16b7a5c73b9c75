# For tests alone: an engine image without the engine. vLLM's packages are a read-only mount at /opt/vllm, which
# every container of the development cluster sees (`up --mount`): an image of 2.7 GB would cost minutes.
ARG BASE
FROM ${BASE}
COPY devcluster/images/build_files.py /build_files.py
RUN mkdir -p /usr/local/lib/python3.11/dist-packages \
 && echo /opt/vllm > /usr/local/lib/python3.11/dist-packages/kvpool-engine.pth \
 && python3 /build_files.py script vllm.entrypoints.cli.main:main /usr/local/bin/vllm \
 && rm /build_files.py
ENV PATH=/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
CMD ["vllm", "serve"]
