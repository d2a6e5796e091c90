"""A certificate of the operator's own making for the report endpoint.

The CA is what the drivers trust for the whole life of a job, so it is kept in a Secret and
survives restarts of the operator; the server certificate is made anew from it when a name
is missing or its time is near.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Gone
from railhead.kube.kinds import SECRET

SECRET_NAME = "railhead-report-tls"
CA_YEARS = 10
SERVER_DAYS = 365
RENEW_DAYS = 60


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the CA that drivers trust, and what the server presents."""

    ca: str
    ca_key: str
    server: str
    server_key: str


async def ensure_certificates(client: KubeClient, namespace: str, names: Sequence[str]) -> Certificates:
    """The stored certificates, made or renewed first where needed. Two operators agree on the stored ones."""
    now = datetime.now(UTC)
    try:
        stored = await client.get(SECRET, SECRET_NAME, namespace=namespace)
    except Gone:
        made = make_certificates(names, now=now)
        try:
            await client.create(SECRET, _to_secret(made, namespace), namespace=namespace)
            return made
        except Conflict:
            stored = await client.get(SECRET, SECRET_NAME, namespace=namespace)
    known = _from_secret(stored)
    if not needs_renewal(known.server, names, now=now):
        return known
    renewed = make_server(known.ca, known.ca_key, names, now=now)
    body = {"data": _to_secret(renewed, namespace)["data"]}
    await client.patch(SECRET, SECRET_NAME, body, type_="merge", namespace=namespace)
    return renewed


def make_certificates(names: Sequence[str], *, now: datetime) -> Certificates:
    """A new CA and a server certificate for these DNS names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "railhead-report-ca")])
    ca = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=365 * CA_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return make_server(_pem(ca), _key_pem(key), names, now=now)


def make_server(ca_pem: str, ca_key_pem: str, names: Sequence[str], *, now: datetime) -> Certificates:
    """A server certificate signed by this CA."""
    ca = x509.load_pem_x509_certificate(ca_pem.encode())
    ca_key = serialization.load_pem_private_key(ca_key_pem.encode(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    server = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "railhead-report")]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=SERVER_DAYS))
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Certificates(ca=ca_pem, ca_key=ca_key_pem, server=_pem(server), server_key=_key_pem(key))


def needs_renewal(server_pem: str, names: Sequence[str], *, now: datetime) -> bool:
    """A name is missing, or the time is near."""
    certificate = x509.load_pem_x509_certificate(server_pem.encode())
    known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    missing = any(_alternative(name) not in list(known) for name in names)
    return missing or certificate.not_valid_after_utc - now < timedelta(days=RENEW_DAYS)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


FIELDS = {"ca.crt": "ca", "ca.key": "ca_key", "tls.crt": "server", "tls.key": "server_key"}


def _to_secret(certificates: Certificates, namespace: str) -> dict[str, Any]:
    data = {key: base64.b64encode(getattr(certificates, field).encode()).decode() for key, field in FIELDS.items()}
    metadata = {"name": SECRET_NAME, "namespace": namespace, "labels": {"app.kubernetes.io/name": "railhead"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def _from_secret(secret: dict[str, Any]) -> Certificates:
    data = secret.get("data") or {}
    return Certificates(**{field: base64.b64decode(data[key]).decode() for key, field in FIELDS.items()})
