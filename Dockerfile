# The image that charts/gpu-provisioner deploys: a virtual environment on a base without shell and package manager.
# Both base images are pinned by the digest of their multi-platform index; dependabot.yml updates tag and digest together.
# `az acr build` builds without BuildKit (https://github.com/Azure/acr/issues/721), so no instruction uses its options.
# No stage sets a platform: each architecture builds all stages, so that the wheels match the interpreter.

FROM docker.io/library/python:3.13.16-slim-trixie@sha256:bf44cdfcb76cd3b41e879bc058fc37ec5872002ccfde7fcb765e218cde0cd79c AS builder
# The Python version of both base images.
ARG PYTHON=3.13
ENV PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# A virtual environment contains the path of its interpreter, which is /usr/bin in the final base image.
RUN ln -s /usr/local/bin/python${PYTHON} /usr/bin/python${PYTHON} \
    && /usr/bin/python${PYTHON} -m venv --without-pip /opt/gpu-provisioner \
    && /usr/bin/python${PYTHON} -m venv --without-pip /opt/build
COPY requirements-image.lock requirements-build.lock ./
RUN pip --python /opt/gpu-provisioner/bin/python install \
        --no-cache-dir --no-compile --only-binary :all: --no-deps --require-hashes -r requirements-image.lock \
    && pip --python /opt/build/bin/python install \
        --no-cache-dir --no-compile --only-binary :all: --no-deps --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY provisioner provisioner
COPY cloudprovider cloudprovider
COPY controllers controllers
RUN /opt/build/bin/python -m hatchling build -t wheel -d /opt/wheel
ARG VERSION=0.1.0
# -I: the working directory and PYTHON… variables do not change what is imported.
# The root file system is read-only at run time, so the bytecode is compiled here; unchecked hashes make it reproducible.
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
# The chart configures probes.
HEALTHCHECK NONE
ENTRYPOINT ["gpu-provisioner"]
