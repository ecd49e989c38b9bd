"""Commands of the pages: for each page with blocks for a shell, what a reader has before it, and what is not run.

The blocks of a page run in order in one shell, in an empty directory, with a network of their own in which the names
of other machines lead to this one.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.project import ROOT

BROKER = "leveret serve >ready 2>log &\nleveret wait --timeout 60\n"
TESTING = "printf '[testing]\\nenabled = true\\n' >leveret.toml\nleveret serve --config leveret.toml >ready 2>log &\n"
CHECKOUT = f"ln -s {ROOT}/config.example.toml {ROOT}/deploy .\nmkdir -p etc/systemd/system\n"
SYSTEMD, KUBERNETES = (
    "systemd: tests/project/test_config.py, test_deploy.py",
    "Kubernetes: tests/project/test_deploy.py",
)
GREEN, WHEELS = (
    "`make check-clients`: bench/newcomer/green_tests.py",
    "an index of packages: tests/project/test_wheels.py",
)
REFERENCE, SPARK = "a RabbitMQ beside", "a cluster of Spark: tests/pipeline"
OTHER_BROKER = (
    "leveret serve --data-dir other --listen 127.0.0.2:5672 --management-listen 127.0.0.2:15672 "
    "--prometheus-listen off >ready-2 2>log-2 &\nleveret wait --data-dir other --timeout 60\n"
)
CONSUMERS = """\
python - <<'END' &
import pika
connection = pika.BlockingConnection()
channel = connection.channel()
channel.queue_declare("orders", durable=True)
for body in (b"one", b"two", b"three"):
    channel.basic_publish("", "orders", body)
for _ in range(2):
    channel.basic_consume("orders", lambda channel, method, *_: channel.basic_ack(method.delivery_tag))
channel.start_consuming()
END
"""


class Page(NamedTuple):
    """A page for its reader. `before` runs before a block, counted from 0."""

    before: dict[int, str]
    replaced: dict[str, str] = {}
    """Directories of a machine, by those in the empty directory."""
    skipped: dict[str, str] = {}
    """Beginnings of lines that are not run, with the reason, or with the test that does run them."""
    elsewhere: dict[int, str] = {}
    """Whole blocks that are not run, in the same way."""


PAGES = {
    "README.md": Page(
        {0: "printf 'def test_nothing(): pass\\n' >test_nothing.py\n", 3: BROKER},
        {"npm test": "pytest", "go test ./...": "pytest", "mvn test": "pytest"},
        {"make run": "`make newcomer`", "make test": "this is it"},
        {1: GREEN},
    ),
    "docs/pipeline.md": Page({}),
    "docs/ci.md": Page({0: "printf 'def test_nothing(): pass\\n' >test_nothing.py\n"}, skipped={"pip install": WHEELS}),
    "docs/frameworks.md": Page({0: BROKER}, {"./mvnw test": "printenv SPRING_RABBITMQ_ADDRESSES"}),
    "docs/clusters.md": Page(
        {}, elsewhere={**dict.fromkeys((0, 1, 4, 5), "`make cluster-page`"), **dict.fromkeys((2, 3), SPARK)}
    ),
    "docs/services.md": Page(
        {0: CHECKOUT},
        {"/etc/": "etc/"},
        {"useradd": "it would be a user of this machine", "systemctl": SYSTEMD, "kubectl": KUBERNETES},
    ),
    "docs/jobs.md": Page(
        {
            0: "printf '[events]\\nenabled = true\\n' >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n"
            f"{BROKER}leveret publish orders 'an order' --declare\nleveret get orders\n",
            2: "leveret publish orders 'an order'\n",
            3: "leveret stop\n",
            4: BROKER,
        },
        {"/var/lib/leveret": "leveret-data", "/srv/audit": "audit", "/lake": "lake", "/tmp/contents": "contents"},
        {
            "leveret pipeline dead-letters": "they take Spark: tests/pipeline",
            "leveret pipeline replay": "the same",
            "leveret archive --queue orders --out s3:": "it takes a bucket",
        },
    ),
    "docs/management.md": Page(
        {
            0: "openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj '/CN=broker.example' "
            "-addext subjectAltName=DNS:broker.example -keyout ca.key -out ca.pem 2>/dev/null\n"
            'printf \'[events]\\nenabled = true\\n[management]\\ntls_listen = ["127.0.0.3:15671"]\\n[tls]\\n'
            'certificate_file = "ca.pem"\\nkey_file = "ca.key"\\n\' >leveret.toml\n'
            "export LEVERET_CONFIG=$PWD/leveret.toml\n"
            f"{BROKER}leveret publish orders 'an order' --declare\nset -- --user reader:secret\n"
        },
        {"curl --cacert ca.pem --user reader": "curl --cacert ca.pem --user reader:secret"},
    ),
    "docs/metrics.md": Page({0: BROKER}),
    "docs/moving.md": Page(
        {
            0: BROKER + OTHER_BROKER + "leveret publish orders 'an order' --declare\n"
            "leveret user add --data-dir other --tags administrator admin secret\n"
            "leveret permission set --data-dir other admin '.*' '.*' '.*'\n"
        }
    ),
    "docs/rehearsal.md": Page(
        {
            0: "printf 'def test_nothing(): pass\\n' >test_nothing.py\n",
            2: "printf '{}' >definitions.json\nprintf '' >rabbitmq.conf\n",
            3: "printf '[rehearsal]\\nwatch = \"4.3\"\\n' >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n"
            + BROKER,
        },
        {"npm test": "pytest"},
    ),
    "docs/shovels.md": Page({0: BROKER}),
    "docs/testing-applications.md": Page(
        {0: "printf 'def test_nothing(): pass\\n' >test_nothing.py\n"},
        {"npm test": "pytest", "go test ./...": "pytest"},
        {"pip install": WHEELS, "npm install": "tests/applications/test_node_client.py"},
        {2: GREEN},
    ),
    "docs/testing-with-leveret.md": Page(
        {0: f"{TESTING}leveret wait --timeout 60\n", 5: "leveret backup monday\n", 7: CONSUMERS},
        {'\'{"directory": "/var/backups/leveret-monday"}\'': '"{\\"directory\\": \\"$PWD/monday\\"}"'},
        {"leveret test-brokers": "a library writes to it: tests/applications/test_hosted_brokers.py"},
    ),
    "docs/backup.md": Page(
        {0: CHECKOUT + BROKER + "leveret publish orders 'an order' --declare\n", 5: BROKER},
        {
            "/etc/": "etc/",
            "/backups/leveret-20260131T031500.123Z": '"$(ls -d backups/leveret-*Z)"',
            "/backups": "backups",
            "/tmp/drill": "drill",
        },
        {"systemctl": SYSTEMD, "kubectl": KUBERNETES},
    ),
    "docs/operations/commands.md": Page(
        {0: BROKER}, skipped={'eval "$(_LEVERET_COMPLETE=zsh': "zsh", "_LEVERET_COMPLETE=fish": "fish"}
    ),
    "docs/operations/policies.md": Page({0: BROKER}),
    "docs/operations/rabbitmq-commands.md": Page(
        {
            0: BROKER + "mkdir bin\nPATH=$PWD/bin:$PATH\n"
            'ln -s "$(command -v leveret)" bin/rabbitmq-diagnostics\nln -s "$(command -v leveret)" bin/rabbitmqadmin\n'
            "leveret vhost add orders\nleveret permission set -p orders guest '.*' '.*' '.*'\n"
        },
        {"/usr/local/bin": "bin"},
    ),
    "docs/operations/settings.md": Page({}),
    "docs/operations/shipping.md": Page(
        {
            0: f"mkdir place\n{BROKER}",
            1: 'printf \'[ship]\\nto = "%s/place"\\n\' "$PWD" >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n'
            f"leveret stop\n{BROKER}leveret publish orders 'an order' --declare\nleveret stop\nmv leveret-data lost\n",
        },
        {"/mnt/other-machine/leveret": "place", "2026-11-28T12:30:00": '"$(date -u +%FT%T)"'},
        {"leveret restore --from /mnt/other-machine/leveret --at 41:": "tests/durability/shipping"},
    ),
    "docs/operations/standby.md": Page(
        {
            0: 'printf \'[ship]\\nto = "%s/place"\\n\' "$PWD" >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n'
            f"mkdir place\n{BROKER}leveret publish orders 'an order' --declare\n",
            1: "until leveret status --data-dir standby >status 2>&1; do sleep 0.1; done\n",
        },
        {
            "--config /etc/leveret/leveret.toml --data-dir /var/lib/leveret": "--data-dir standby --listen "
            "127.0.0.2:5672 --management-listen off --prometheus-listen off >following 2>log-2 &",
            "/var/lib/leveret": "standby",
        },
    ),
    "docs/operations/upgrade.md": Page({0: BROKER}, skipped={"pip install": WHEELS}),
    "docs/operations/starting.md": Page({1: BROKER}, skipped={"leveret serve [": "a synopsis"}),
    "docs/operations/tls.md": Page(
        {
            1: 'printf \'[tls]\\nlisten = ["127.0.0.3:5671"]\\ncertificate_file = "server.pem"\\n'
            'key_file = "server.key"\\n\' >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n' + BROKER
        }
    ),
    "docs/operations/container.md": Page({}, elsewhere={0: "docker"}),
    "docs/operations/single-directory.md": Page({}, elsewhere={0: "`make single` builds the directory and tries it"}),
    "docs/testing.md": Page(
        {4: f"cd {ROOT}\n"},
        {"--hours 10": "--hours 0.1"},
        {"make": "campaigns: `make prove`"},
        {0: REFERENCE, 1: REFERENCE, 2: REFERENCE, 3: "campaigns: `make prove`"},
    ),
}
JOBS = Page(
    {
        0: "printf 'test:\\n\\tleveret publish orders one --declare && leveret get orders\\n' >Makefile\n",
        1: "leveret stop\nrm -r leveret-data\n",
    },
    skipped={"pip install": WHEELS},
    elsewhere={2: "docker, and a registry of images", 3: "docker, and a registry of images"},
)
"""The jobs of docs/ci.md by their order: GitHub's and GitLab's, without and with an image."""
