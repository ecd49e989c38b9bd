"""Debian's packages of Go's and Java's libraries for AMQP, and of JUnit 5."""

from __future__ import annotations

from pathlib import Path

GO_LIBRARIES = Path("/usr/share/gocode/src")
GO_MODULES = ("github.com/rabbitmq/amqp091-go", "go.uber.org/goleak", "github.com/stretchr/testify")
"""The library, and modules that its own tests need: Go wants to know where they are."""
GO_PACKAGES = "go or golang-github-rabbitmq-amqp091-go-dev"
JAVA_LIBRARIES = Path("/usr/share/java")
JARS = [
    JAVA_LIBRARIES / f"{name}.jar"
    for name in (
        *("junit-jupiter-api", "junit-jupiter-engine", "junit-platform-commons", "junit-platform-engine"),
        *("junit-platform-launcher", "junit-platform-console", "junit-platform-reporting", "opentest4j"),
        *("apiguardian-api", "picocli", "univocity-parsers", "amqp-client", "slf4j-api"),
    )
]
JAVA_PACKAGES = "javac, junit5 or librabbitmq-client-java"


def replaced_modules() -> list[str]:
    """Return options of `go mod edit` that name Debian's directories."""
    return [f"-replace={name}={GO_LIBRARIES / name}" for name in GO_MODULES]
