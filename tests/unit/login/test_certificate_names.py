"""The name that a certificate logs in by. The expectations are RabbitMQ 3.10.8's answers to these certificates."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID as Oid

from broker.session.login.certificate_names import Naming, alternative_names, login_name, subject, valid_until

KEY = ec.generate_private_key(ec.SECP256R1())
UNTIL = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)
Part = tuple[x509.ObjectIdentifier, str]


def certificate(
    *parts: Part | list[Part], names: list[x509.GeneralName] | None = None, until: datetime = UNTIL
) -> bytes:
    """A certificate for a distinguished name; what is together in a list is one part of it."""
    together = [part if isinstance(part, list) else [part] for part in parts]
    name = x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in some]) for some in together])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([]))
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(until - timedelta(days=30))
        .not_valid_after(until)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


DISTINGUISHED = [
    ([(Oid.COUNTRY_NAME, "DE"), (Oid.STATE_OR_PROVINCE_NAME, "Bavaria"), (Oid.LOCALITY_NAME, "München"),
      (Oid.ORGANIZATION_NAME, "Foo, Bar & Co"), (Oid.ORGANIZATIONAL_UNIT_NAME, "R")],
     r"OU=R,O=Foo\, Bar & Co,L=M\C3\BCnchen,ST=Bavaria,C=DE"),
    ([(Oid.ORGANIZATION_NAME, "client"), (Oid.COMMON_NAME, '#weird;name <x>\\ "q"=y'), (Oid.EMAIL_ADDRESS, "a@b.c")],
     r"EMAILADDRESS=a@b.c,CN=\#weird\;name \<x\>\\ \"q\"=y,O=client"),
    ([(Oid.DOMAIN_COMPONENT, "com"), (Oid.DOMAIN_COMPONENT, "example"), (Oid.USER_ID, "u1"), (Oid.SERIAL_NUMBER, "77"),
      (Oid.TITLE, "Dr"), (Oid.SURNAME, "Sur"), (Oid.GIVEN_NAME, "Giv"),
      (Oid.COMMON_NAME, " lead space "), (Oid.COMMON_NAME, "second cn")],
     r"CN=second cn,CN=\ lead space\ ,GIVENNAME=Giv,SN=Sur,TITLE=Dr,SERIALNUMBER=77,UID=u1,DC=example,DC=com"),
    ([[(Oid.ORGANIZATION_NAME, "X"), (Oid.COMMON_NAME, "multi")], (Oid.STREET_ADDRESS, "Main St 1"),
      (Oid.POSTAL_CODE, "80331"), (x509.ObjectIdentifier("2.5.4.13"), "desc"), (Oid.INITIALS, "AB"),
      (Oid.DN_QUALIFIER, "q"), (Oid.PSEUDONYM, "ps"), (Oid.GENERATION_QUALIFIER, "III"),
      (x509.ObjectIdentifier("2.5.4.41"), "full")],
     ("2.5.4.41=full,GENERATIONQUALIFIER=III,PSEUDONYM=ps,2.5.4.46=q,INITIALS=AB,2.5.4.13=desc,2.5.4.17=80331,"
      "2.5.4.9=Main St 1,O=X+CN=multi")),
    ([(Oid.ORGANIZATION_NAME, "only-org")], "O=only-org"),
]  # fmt: skip
"""Parts of names as they stand in certificates, and how RabbitMQ writes them."""


@pytest.mark.parametrize(("parts", "expected"), DISTINGUISHED)
def test_distinguished_names_are_written_as_by_rabbitmq(parts: list[Part | list[Part]], expected: str) -> None:
    assert subject(certificate(*parts)) == expected
    assert login_name(certificate(*parts), Naming()) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, None), (1, '#weird;name <x>\\ "q"=y'), (2, " lead space ,second cn"), (3, "multi"), (4, None)],
)
def test_common_names_are_taken_as_they_are(index: int, expected: str | None) -> None:
    assert login_name(certificate(*DISTINGUISHED[index][0]), Naming("common_name")) == expected


NAMES: list[x509.GeneralName] = [
    x509.DNSName("alice.example.com"),
    x509.DNSName("second"),
    x509.RFC822Name("alice@example.com"),
    x509.UniformResourceIdentifier("spiffe://x/y"),
    x509.IPAddress(ipaddress.ip_address("10.1.2.3")),
    x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x03upn"),
]


@pytest.mark.parametrize(
    ("kind", "index", "expected"),
    [
        ("dns", 0, "alice.example.com"),
        ("dns", 1, "second"),
        ("dns", 2, None),
        ("email", 0, "alice@example.com"),
        ("uri", 0, "spiffe://x/y"),
        ("ip", 0, "10.1.2.3"),
        ("other_name", 0, "upn"),
    ],
)
def test_alternative_names_are_taken_by_kind_and_place(kind: str, index: int, expected: str | None) -> None:
    shown = certificate((Oid.COMMON_NAME, "x"), names=NAMES)
    assert login_name(shown, Naming("subject_alternative_name", kind, index)) == expected
    assert alternative_names(certificate((Oid.COMMON_NAME, "x")), kind) == []


@pytest.mark.parametrize(
    "until", [UNTIL, datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2061, 1, 1, tzinfo=UTC)]
)
def test_the_end_of_validity_in_both_forms_of_time(until: datetime) -> None:
    assert valid_until(certificate((Oid.COMMON_NAME, "x"), until=until)) == until
