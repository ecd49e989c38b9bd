# A broker on port 5672, its data in the volume /var/lib/leveret.
#   docker build -t leveret .
#   docker run -p 5672:5672 -v leveret:/var/lib/leveret -e LEVERET_DEFAULT_USER=app -e LEVERET_DEFAULT_PASS=secret leveret
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /src/
COPY broker /src/broker
COPY storage /src/storage
COPY migrations /src/migrations
RUN pip install --no-cache-dir '/src[json-logs]' && rm -rf /src \
    && useradd --system --home-dir /var/lib/leveret --create-home leveret \
    && chmod 700 /var/lib/leveret

ENV LEVERET_DATA_DIR=/var/lib/leveret
USER leveret
VOLUME /var/lib/leveret
EXPOSE 5672
# PID 1 receives SIGTERM itself, so that `docker stop` is a clean shutdown.
ENTRYPOINT ["leveret"]
CMD ["serve", "--listen", "0.0.0.0:5672"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["leveret", "ping"]
