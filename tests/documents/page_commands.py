"""Commands of the pages: for each page with blocks for a shell, what a reader has before it, and who runs the rest.

The blocks of a page run in order in one shell, in an empty directory, with a network of their own in which the names
of other machines lead to this one.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.project import ROOT

BROKER = "leveret serve >ready 2>log &\nleveret wait --timeout 60\n"
TESTING = "printf '[testing]\\nenabled = true\\n' >leveret.toml\nleveret serve --config leveret.toml >ready 2>log &\n"
LEVERET = f"ln -s {ROOT} leveret\n"
CHECKOUT = f"ln -s {ROOT}/config.example.toml {ROOT}/deploy .\n"
OWN_ETC = (
    "mkdir etc work\nmount -t tmpfs etc etc\nmkdir etc/upper etc/work\n"
    "mount -t overlay -o lowerdir=/etc,upperdir=etc/upper,workdir=etc/work overlay /etc\n"
)
"""Changes of /etc go into the empty directory."""


class RunBy(NamedTuple):
    """A test that runs the lines, as FILE::NAME."""

    test: str


class Campaign(NamedTuple):
    """A target of make that runs the lines as they stand on the page, for longer than a test may take."""

    target: str


class NotRun(NamedTuple):
    """The thing that is missing here for a line to be run."""

    why: str


Reason = RunBy | Campaign | NotRun
NEWCOMERS = RunBy("tests/unit/bench/test_newcomer.py::test_a_newcomer_gets_from_nothing_to_a_green_test")
"""It runs README's lines: others' have to be the same."""
KUBERNETES = NotRun("a cluster of Kubernetes; tests/project/test_deploy.py reads the manifests")
REFERENCE = NotRun("a RabbitMQ beside")
SPARK = NotRun("three starts of Spark: tests/pipeline/jobs/test_dead_letter_jobs.py runs these verbs")
DOCKER = NotRun("a daemon of docker; `make check-image` plays the Dockerfile's stages")
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
    skipped: dict[str, Reason] = {}
    """Beginnings of lines that are left out, with who runs them, or why nobody does."""
    elsewhere: dict[int, Reason] = {}
    """Whole blocks that are left out, in the same way."""


PAGES = {
    "README.md": Page(
        {0: "printf 'def test_nothing(): pass\\n' >test_nothing.py\n", 2: f"LEVERET={ROOT}\n", 4: BROKER},
        {"npm test": "pytest", "go test ./...": "pytest", "mvn test": "pytest"},
        {"make run": Campaign("newcomer"), "make test": NotRun("no test runs all tests: it is one of them")},
        {1: NEWCOMERS},
    ),
    "docs/pipeline.md": Page({}),
    "docs/ci.md": Page(
        {0: f"{LEVERET}mkdir tests\nprintf 'def test_nothing(): pass\\n' >tests/test_nothing.py\n"},
    ),
    "docs/frameworks.md": Page({0: BROKER}, {"./mvnw test": "printenv SPRING_RABBITMQ_ADDRESSES"}),
    "docs/clusters.md": Page(
        {},
        elsewhere={
            **dict.fromkeys((0, 1, 4, 5), Campaign("cluster-page")),
            2: NotRun("a cluster of YARN"),
            3: NotRun("a cluster of Kubernetes"),
        },
    ),
    "docs/services.md": Page(
        {0: CHECKOUT + OWN_ETC},
        {"enable --now": "--root=/ enable"},
        {"systemctl reload": NotRun("a systemd that runs"), "kubectl": KUBERNETES},
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
            "leveret pipeline dead-letters": SPARK,
            "leveret pipeline replay": SPARK,
            "leveret archive --queue orders --out s3:": NotRun("a bucket, and a reader who interrupts it"),
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
        {0: f"{LEVERET}printf 'def test_nothing(): pass\\n' >test_nothing.py\n"},
        {"npm test": "pytest test_nothing.py", "-- go test ./...": "-- pytest test_nothing.py"},
        elsewhere={1: NEWCOMERS, 2: NEWCOMERS},
    ),
    "docs/testing-with-leveret.md": Page(
        {0: f"{TESTING}leveret wait --timeout 60\n", 5: "leveret backup monday\n", 7: CONSUMERS},
        {
            '\'{"directory": "/var/backups/leveret-monday"}\'': '"{\\"directory\\": \\"$PWD/monday\\"}"',
            "leveret test-brokers": "leveret test-brokers </dev/null",
        },
    ),
    "docs/backup.md": Page(
        {0: CHECKOUT + OWN_ETC + BROKER + "leveret publish orders 'an order' --declare\n", 5: BROKER},
        {
            "enable --now": "--root=/ enable",
            "/backups/leveret-20260131T031500.123Z": '"$(ls -d backups/leveret-*Z)"',
            "/backups": "backups",
            "/tmp/drill": "drill",
        },
        {"kubectl": KUBERNETES},
    ),
    "docs/operations/commands.md": Page(
        {0: BROKER},
        {
            'eval "$(_LEVERET_COMPLETE=zsh_source leveret)"': "_LEVERET_COMPLETE=zsh_source leveret | grep '^#compdef'",
            "leveret | source": "leveret | grep '^complete .*leveret'",
        },
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
        {
            "/mnt/other-machine/leveret": "place",
            "2026-11-28T12:30:00 --replace": '"$(date -u +%FT%T)" --replace >restored',
            "41:1809": '"$(grep -Eo "[0-9]+:[0-9]+" restored | tail -n 1)"',
        },
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
    "docs/operations/upgrade.md": Page({0: LEVERET + BROKER}),
    "docs/operations/starting.md": Page({0: BROKER}),
    "docs/operations/tls.md": Page(
        {
            1: 'printf \'[tls]\\nlisten = ["127.0.0.3:5671"]\\ncertificate_file = "server.pem"\\n'
            'key_file = "server.key"\\n\' >leveret.toml\nexport LEVERET_CONFIG=$PWD/leveret.toml\n' + BROKER
        }
    ),
    "docs/operations/container.md": Page({}, elsewhere={0: DOCKER}),
    "docs/operations/single-directory.md": Page(
        {},
        elsewhere={
            0: RunBy(
                "tests/unit/bench/test_newcomer.py::test_the_single_directory_works_in_a_root_with_glibc_and_nothing_else"
            )
        },
    ),
    "docs/testing.md": Page(
        {4: f"cd {ROOT}\n"},
        {"--hours 10": "--hours 0.1"},
        {"make simulate": Campaign("simulate")},
        {0: REFERENCE, 1: REFERENCE, 2: REFERENCE, 3: Campaign("crash-states")},
    ),
}
JOBS = Page(
    {
        0: LEVERET + "printf 'test:\\n\\tleveret publish orders one --declare && leveret get orders\\n' >Makefile\n",
        1: "leveret stop\nrm -r leveret-data\n",
    },
    elsewhere={2: DOCKER, 3: DOCKER},
)
"""The jobs of docs/ci.md by their order: GitHub's and GitLab's, without and with an image."""
