# A broker that stands in for rabbitmq:3-management: the same ports, environment, files in /etc/rabbitmq, volume and
# commands. docs/operations.md says what is read.
#   docker build -t leveret .
#   docker run -p 5672:5672 -p 15672:15672 -v data:/var/lib/rabbitmq \
#       -e RABBITMQ_DEFAULT_USER=app -e RABBITMQ_DEFAULT_PASS=secret leveret
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE config.example.toml /src/
COPY leveret /src/leveret
COPY leveret_spark /src/leveret_spark
COPY broker /src/broker
COPY storage /src/storage
COPY migrations /src/migrations
COPY pipeline /src/pipeline
COPY deploy/container/ /etc/rabbitmq/
# Anyone may write where RabbitMQ's image lets anyone: `docker run --user` with any number works.
RUN pip install --no-cache-dir '/src[json-logs]' && rm -rf /src \
    && groupadd --system --gid 999 rabbitmq \
    && useradd --system --uid 999 --gid rabbitmq --home-dir /var/lib/rabbitmq --create-home rabbitmq \
    && chown -R rabbitmq:rabbitmq /etc/rabbitmq \
    && chmod 1777 /var/lib/rabbitmq /etc/rabbitmq /etc/rabbitmq/conf.d \
    && cd /usr/local/bin && ln -s leveret-container rabbitmq-server \
    && for name in rabbitmqctl rabbitmq-diagnostics rabbitmqadmin rabbitmq-plugins rabbitmq-queues rabbitmq-upgrade; \
       do ln -s leveret "$name"; done

ENV LEVERET_DATA_DIR=/var/lib/rabbitmq/leveret LANG=C.UTF-8 HOME=/var/lib/rabbitmq
VOLUME /var/lib/rabbitmq
EXPOSE 5671 5672 15671 15672 15692
# It starts as root, makes the volume the user's own and goes on as user 999. As process 1 it receives SIGTERM itself, so
# that `docker stop` is a clean shutdown.
ENTRYPOINT ["leveret-container"]
CMD ["rabbitmq-server"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["leveret", "ping"]
