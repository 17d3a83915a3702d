# The service in a container, for CPU, CUDA or ROCm by the base image, as a user without rights.
#
#   docker build -t tonetune .
#   docker build -t tonetune --build-arg BASE=pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime .
#   docker build -t tonetune --build-arg BASE=rocm/pytorch:latest .
#   docker run -p 8000:8000 -v ./bundle:/model:ro tonetune
ARG BASE=python:3.12-slim
FROM ${BASE}

# Where the base has no torch: the build to install, and its index.
ARG TORCH="torch>=2.8"
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# The environment sees the packages of the base, so a torch for its card stays.
RUN python3 -m venv --system-site-packages /opt/tonetune
ENV PATH=/opt/tonetune/bin:$PATH
# hadolint ignore=DL3013
RUN python -c "import torch" || pip install --no-cache-dir "${TORCH}" --index-url "${TORCH_INDEX}"

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir "/src[serve,onnx]" && rm -rf /src

RUN useradd --uid 10001 --create-home tonetune
USER 10001
WORKDIR /home/tonetune

EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["tonetune", "serve", "--host", "0.0.0.0"]
CMD ["/model"]
