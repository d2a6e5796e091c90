# syntax=docker/dockerfile:1
# The operator's image. Ray and torch are not in it: they belong to the jobs' images.
#   docker build -t railhead/operator:0.1.0 .

FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m pip install --no-cache-dir --disable-pip-version-check uv
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY manifests/install.yaml manifests/install.yaml
COPY operator operator
# A wheel, so that the manifests and the Go modules are copies and not links. The
# constraints pin each dependency and carry its hashes, which uv compares.
RUN uv build --quiet --wheel --out-dir /dist . \
    && python -m venv --without-pip /opt/venv \
    && uv pip install --quiet --no-cache --compile-bytecode --only-binary :all: \
        --python /opt/venv/bin/python --constraint constraints.txt /dist/railhead-*.whl \
    && /opt/venv/bin/railhead --version

FROM python:3.11-slim
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, or a kubelet cannot tell that it is not root.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["railhead"]
CMD ["operator"]
