# AutoHedge: the edge, and `autohedge docker-guard` in front of the engine's socket. Two stages: what builds does not ship.
#
#   docker build --build-arg VERSION=0.1.0 -t autohedge:0.1.0 .
#
# VERSION is what /version and the image's label say; without it the program's own.
#
# The data path is compiled. Where apt-get or pip cannot have the tools, it runs from its sources: slower, otherwise the same; the
# build says NOT COMPILED, and `autohedge version` does not say "compiled". A compiler that fails ends the build.

FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
# Before all that is ours: these layers stay in the cache while the code changes.
RUN { apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev; } >/dev/null \
    || echo "apt-get has no C compiler here"
RUN python -m venv --without-pip /opt/autohedge
COPY pyproject.toml image/requirements.py ./
RUN python requirements.py > requirements.txt \
    && python -m pip --python /opt/autohedge/bin/python install --no-compile -r requirements.txt
RUN python requirements.py mypy setuptools > tools.txt \
    && { python -m pip install --quiet --no-compile --target /opt/tools -r tools.txt \
    || echo "pip has no mypy here"; }
COPY README.md LICENSE ./
COPY autohedge ./autohedge
ARG VERSION=""
RUN test -z "$VERSION" || sed -i "s|^__version__ = .*|__version__ = \"$VERSION\"|" autohedge/__init__.py
RUN python -m pip --python /opt/autohedge/bin/python install --no-compile --no-deps .
COPY fast.py ./
RUN PYTHONPATH=/opt/tools /opt/autohedge/bin/python fast.py /opt/autohedge/lib/python3.11/site-packages
COPY image/trim.py image/used.py ./
RUN python trim.py /opt/autohedge/bin/python /opt/autohedge/lib/python3.11/site-packages && cp used.py /opt/autohedge/

FROM python:3.11-slim
ARG VERSION=""
LABEL org.opencontainers.image.title="AutoHedge" \
      org.opencontainers.image.description="Edge proxy for LLM servers on Docker Swarm" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /opt/autohedge /opt/autohedge
ENV PATH=/opt/autohedge/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    AUTOHEDGE_DATA=/var/lib/autohedge
# The first imports, as root, leave the bytecode of the standard library that the base image comes without; and prove the copy.
RUN python /opt/autohedge/used.py >/dev/null \
    && mkdir -p /app/config /var/lib/autohedge \
    && chown 10001:10001 /var/lib/autohedge
USER 10001:10001
WORKDIR /app
VOLUME /var/lib/autohedge
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 CMD ["autohedge", "healthcheck", "--ask", "startup"]
ENTRYPOINT ["python", "-m", "autohedge"]
CMD ["serve"]
