# The operator's image. Ray and torch are not in it: they belong to the jobs' images. The driver
# that runs in those is in the package, and is packed by the operator when it starts.
#   make image
# The base image needs Python 3.11 or newer with its venv module, at the same path in both stages,
# and no shell where BASE_IMAGE differs from BUILD_IMAGE.
ARG BUILD_IMAGE=python:3.11-slim
ARG BASE_IMAGE=${BUILD_IMAGE}

FROM ${BUILD_IMAGE} AS build
# The same sources give the same files: no file knows when it was made.
ARG SOURCE_DATE_EPOCH=0
# UV_SYSTEM_CERTS: a mirror of the package index may have a certificate that the base image knows.
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 UV_SYSTEM_CERTS=1
WORKDIR /src
# It installs all other packages, so its own hash is compared, too.
COPY uv.txt ./
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement uv.txt
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY manifests/install.yaml manifests/install.yaml
COPY operator operator
# A wheel, so that the manifests and the Go modules are copies and not links. The
# constraints pin each dependency and carry its hashes, which uv compares.
RUN /opt/build/bin/uv build --quiet --wheel --out-dir /dist . \
    && python3 -m venv --without-pip /opt/venv \
    && /opt/build/bin/uv pip install --quiet --no-cache --only-binary :all: \
        --python /opt/venv/bin/python --constraint constraints.txt "$(ls /dist/railhead_train-*.whl)[operator]" \
    && find /opt/venv -name uv_cache.json -delete \
    && sed -i /uv_cache.json/d /opt/venv/lib/python3*/site-packages/railhead_train-*.dist-info/RECORD \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/venv/lib \
    && /opt/venv/bin/railhead version

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Railhead operator" \
    org.opencontainers.image.description="A Kubernetes operator for distributed training with Ray Train" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, or a kubelet cannot tell that it is not root.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["railhead"]
CMD ["operator"]
