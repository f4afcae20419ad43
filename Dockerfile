# The HTTP server of an index, with API keys:
#   docker build -t hybrid-graphrag .
#   docker run -p 8000:8000 -v ./kb:/data/kb -v ./keys.toml:/data/keys.toml:ro hybrid-graphrag
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY core core
COPY llama_graphrag llama_graphrag
COPY langchain_graphrag langchain_graphrag
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir ".[cli,files,postgres,serve,mcp]"

FROM python:3.12-slim
LABEL org.opencontainers.image.title="hybrid-graphrag" \
      org.opencontainers.image.licenses="MIT"
# libgomp1 is what faiss links.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 graphrag \
    && install --directory --owner graphrag --group graphrag /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HYBRID_GRAPHRAG_KB=/data/kb
USER graphrag
WORKDIR /data
EXPOSE 8000
# SIGTERM finishes running requests.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["hybrid-graphrag"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--keys", "/data/keys.toml"]
