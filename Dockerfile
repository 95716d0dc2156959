# The image that charts/gpu-provisioner deploys: one virtual environment on a base without shell and package manager.
# Both bases are pinned by the digest of their index (all architectures); dependabot.yml renews tag and digest together.
# Nothing here names a platform: each architecture builds all stages for itself, so wheels and interpreter always match.

FROM docker.io/library/python:3.13.16-slim-trixie@sha256:bf44cdfcb76cd3b41e879bc058fc37ec5872002ccfde7fcb765e218cde0cd79c AS builder
# The minor version of both bases.
ARG PYTHON=3.13
ENV PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# An environment remembers its interpreter's path: made from here, it finds the other base's interpreter there.
RUN ln -s /usr/local/bin/python${PYTHON} /usr/bin/python${PYTHON} \
    && /usr/bin/python${PYTHON} -m venv --without-pip /opt/gpu-provisioner \
    && /usr/bin/python${PYTHON} -m venv --without-pip /opt/build
COPY requirements-image.lock requirements-build.lock ./
RUN --mount=type=cache,target=/root/.cache/pip \
    pip --python /opt/gpu-provisioner/bin/python install \
        --no-compile --only-binary :all: --require-hashes -r requirements-image.lock \
    && pip --python /opt/build/bin/python install \
        --no-compile --only-binary :all: --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY provisioner provisioner
COPY cloudprovider cloudprovider
COPY controllers controllers
COPY examples examples
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/wheel
ARG VERSION=0.1.0
# -I: neither the folder that it is started in nor a PYTHON variable can put other code in its place.
# The root file system is read-only, so what is compiled is compiled here, and is the same in each build.
RUN pip --python /opt/gpu-provisioner/bin/python install \
        --no-cache-dir --no-compile --no-deps --no-index --find-links /opt/wheel "aks-gpu-provisioner==${VERSION}" \
    && sed -i '1s|$| -IB|' /opt/gpu-provisioner/bin/gpu-provisioner \
    && /opt/gpu-provisioner/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-provisioner/lib \
    && test "$(/opt/gpu-provisioner/bin/gpu-provisioner version)" = "gpu-provisioner ${VERSION}"

FROM gcr.io/distroless/python3-debian13:nonroot@sha256:8ee214843129f43e2ebf5e0ca9f2e4e6d8292143d1b8a6787f169b5898578884
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="aks-gpu-provisioner" \
      org.opencontainers.image.description="Turns Karpenter NodeClaims into GPU nodes on Azure Kubernetes Service" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /opt/gpu-provisioner /opt/gpu-provisioner
ENV PATH=/opt/gpu-provisioner/bin:/usr/bin:/bin GPU_PROVISIONER_COMMIT=${REVISION}
USER 65532:65532
EXPOSE 8080 8081
# Kubernetes probes; the chart says how.
HEALTHCHECK NONE
ENTRYPOINT ["gpu-provisioner"]
