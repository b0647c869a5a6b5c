"""Certificates and keys for a federation on this machine: python credentials.py DIRECTORY [NODES].

    ca.crt                  who vouches for the server: every node and every user needs it
    server.crt, server.key  the SuperLink's
    node-0, node-0.pub ...  a SuperNode's key, and its public half that is registered with the SuperLink

They are for trying things out. Elsewhere, use your own authority, and names instead of 127.0.0.1.
"""

import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAYS = 365


def certificate(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey) -> bytes:
    """A certificate for this machine's loopback, signed by `by`; its own authority where name and issuer are one."""
    now = datetime.now(UTC)
    alone = name == issuer
    here = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=alone, path_length=0 if alone else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if alone:
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        ) | {"encipher_only": False, "decipher_only": False}
        builder = builder.add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
    else:
        builder = builder.add_extension(here, critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def private(path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    """Write a private key that only this user can read."""
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))


def credentials(folder: Path, nodes: int) -> None:
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    (folder / "ca.crt").write_bytes(certificate("fedcode example CA", authority, "fedcode example CA", authority))
    (folder / "server.crt").write_bytes(certificate("localhost", server, "fedcode example CA", authority))
    private(folder / "server.key", server, serialization.PrivateFormat.PKCS8)
    for number in range(nodes):
        key = ec.generate_private_key(ec.SECP384R1())
        private(folder / f"node-{number}", key, serialization.PrivateFormat.OpenSSH)
        form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        (folder / f"node-{number}.pub").write_bytes(key.public_key().public_bytes(*form))


if __name__ == "__main__":
    credentials(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)
