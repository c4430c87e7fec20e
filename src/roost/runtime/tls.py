"""TLS: the contexts of both ends, and an authority of one's own to issue certificates with.

Whatever is wrong with the files is said at the start, by name: OpenSSL's own messages name none, and a
certificate that has expired is otherwise noticed by the peers only. A peer's certificate is checked against
the authority; that of a server must also name the host that was dialled (in its SAN, not in its CN).

Keys are of the curve P-256, which everything understands. Certificates are for both ends of a connection, as
a broker dials its neighbours too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from roost.errors import UserError
from roost.runtime.private_file import write_private
from roost.runtime.tables import TlsTable

# --- contexts -------------------------------------------------------------------------------------


def server_context(tls: TlsTable, now: datetime | None = None) -> ssl.SSLContext:
    """For those who connect to us. UserError if a file of it will not do."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _present(context, tls, now)
    if tls.authority:
        _trust(context, tls.authority, now)
        required = tls.require_client_certificate
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    elif tls.require_client_certificate:
        raise UserError("certificates of clients are required; expected an authority to check them")
    return context


def tell_failures(context: ssl.SSLContext, told: Callable[[str], None]) -> None:
    """Have handshakes that fail told, here and to the peer.

    The event loop hears of a failure and hangs up, before it has written what TLS wants to say to the peer
    (an alert, with the reason). So the failure is held back once, as if more were to be read: the alert goes
    out, the peer hangs up, and if it does not, the time for a handshake runs out.
    """

    class Candid(ssl.SSLObject):
        _failure: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self._failure is not None:
                raise self._failure
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self._failure = error
                told(f"the TLS handshake failed: {error}")
                raise ssl.SSLWantReadError from error

    context.sslobject_class = Candid


def client_context(tls: TlsTable, now: datetime | None = None) -> ssl.SSLContext:
    """For those whom we dial. UserError if a file of it will not do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # asks for a certificate and checks the host
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A CN is a name for people; without this it counts as a host where there is no SAN.
    context.hostname_checks_common_name = False
    if tls.authority:
        _trust(context, tls.authority, now)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.certificate or tls.key:
        _present(context, tls, now)
    return context


def _present(context: ssl.SSLContext, tls: TlsTable, now: datetime | None) -> None:
    if not (tls.certificate and tls.key):
        raise UserError("TLS needs a certificate and its key; expected the files of both")
    certificate = read_certificates(Path(tls.certificate))[0]
    if objection := objection_to_time(certificate, now):
        raise UserError(f"{tls.certificate}: {objection}")
    if read_key(Path(tls.key)).public_key() != certificate.public_key():
        raise UserError(
            f"{tls.key}: the key does not belong to the certificate {tls.certificate};"
            " expected the one that was made with it"
        )
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (ssl.SSLError, OSError) as bad:
        raise UserError(f"{tls.certificate}: can't be used: {bad}") from None


def _trust(context: ssl.SSLContext, authority: str, now: datetime | None) -> None:
    # While one authority takes over from another, the file holds both, and one may have expired.
    objections = [objection_to_time(each, now) for each in read_certificates(Path(authority))]
    if all(objections):
        raise UserError(f"{authority}: {objections[0]}")
    try:
        context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as bad:
        raise UserError(f"{authority}: can't be used: {bad}") from None


def objection_to_time(certificate: x509.Certificate, now: datetime | None = None) -> str:
    """To using a certificate now; "" while it is valid."""
    now, form = now or datetime.now(UTC), "%Y-%m-%d %H:%M UTC"
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > ends:
        return f"the certificate expired on {ends:{form}}; expected one that is valid"
    if now < begins:
        return (
            f"the certificate begins on {begins:{form}}; expected one that is valid, by this clock"
        )
    return ""


def names_of_peer(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names in a peer's certificate, as `getpeercert` gives it: CN and SAN, each once."""
    if not certificate:
        return ()
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for kind, value in subject if kind == "commonName"]
    names += [value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)]
    return tuple(dict.fromkeys(names))


# --- files ----------------------------------------------------------------------------------------

T = TypeVar("T")


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Those of a PEM file, at least one; that of the file's owner comes first."""
    return _read(path, "a certificate in PEM", x509.load_pem_x509_certificates)


def read_key(path: Path) -> PrivateKeyTypes:
    """The key of a PEM file."""
    return _read(
        path,
        "a key in PEM, without a passphrase",
        lambda data: serialization.load_pem_private_key(data, None),
    )


def _read(path: Path, expected: str, load: Callable[[bytes], T]) -> T:
    try:
        return load(path.read_bytes())
    except OSError as bad:
        raise UserError(f"{path}: {bad.strerror or bad}; expected {expected}") from None
    except TypeError:  # what `cryptography` raises for a key that is encrypted
        raise UserError(f"{path}: the key has a passphrase; expected {expected}") from None
    except ValueError:
        raise UserError(f"{path}: it can't be read; expected {expected}") from None


class CertificateFacts(Struct, frozen=True, kw_only=True):
    """What people want to know of a certificate."""

    subject: str
    issuer: str
    names: tuple[str, ...]  # CN and SAN: whom it may stand for
    authority: bool  # it may issue others
    begins: datetime
    ends: datetime
    fingerprint: str  # SHA-256


def facts_of(certificate: x509.Certificate) -> CertificateFacts:
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = [str(each.value) for each in common]
    authority = False
    for extension in certificate.extensions:
        match extension.value:
            case x509.SubjectAlternativeName() as others:
                names += [str(other.value) for other in others]
            case x509.BasicConstraints(ca=ca):
                authority = ca
    return CertificateFacts(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        names=tuple(dict.fromkeys(names)),
        authority=authority,
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":"),
    )


# --- an authority ---------------------------------------------------------------------------------

AUTHORITY = "authority"
AUTHORITY_DAYS = 3_650
DAYS = 365
# Clocks differ: a certificate begins a little earlier than it is made.
SKEW = timedelta(minutes=5)
COMMON_NAME_LENGTH_MAX = 64


def make_authority(
    folder: Path, *, name: str = "Roost", days: int = AUTHORITY_DAYS, now: datetime | None = None
) -> tuple[Path, Path]:
    """A new authority: `authority.pem`, which peers are given, and `authority.key`, which nobody is."""
    paths = _paths(folder, AUTHORITY)
    _refuse_old(paths)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as bad:
        raise UserError(f"{folder}: {bad.strerror or bad}; expected a folder") from None
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _begun(subject, subject, key, days, now or datetime.now(UTC))
        # It issues certificates for peers, and none for further authorities.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    _write(paths, key, builder.sign(key, hashes.SHA256()))
    return paths


def issue(
    folder: Path,
    name: str,
    hosts: Sequence[str],
    *,
    days: int = DAYS,
    replace: bool = False,
    now: datetime | None = None,
) -> tuple[Path, Path]:
    """A certificate of the folder's authority, for a broker or a client: `NAME.pem` and `NAME.key`.

    `hosts` are the names and addresses that a server of it is dialled by; a client needs none.
    """
    paths = _paths(folder, name)
    if name == AUTHORITY:
        raise UserError(f"{paths[0]}: that is the authority itself; expected another name")
    if not replace:
        _refuse_old(paths)
    now = now or datetime.now(UTC)
    of_authority, authority_key = _paths(folder, AUTHORITY)
    if not of_authority.exists():
        raise UserError(f"{of_authority}: not there; `roost keys authority {folder}` makes one")
    authority = read_certificates(of_authority)[0]
    if objection := objection_to_time(authority, now):
        raise UserError(f"{of_authority}: {objection}")
    signer = read_key(authority_key)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise UserError(f"{authority_key}: not a key of `roost keys`; expected one of a curve")
    if signer.public_key() != authority.public_key():
        raise UserError(f"{authority_key}: the key does not belong to {of_authority}")
    left = (authority.not_valid_after_utc - now).days
    if days > left:
        raise UserError(f"{days} days; the authority itself ends in {left}, expected no more")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _begun(_subject(name), authority.subject, key, days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    _write(paths, key, builder.sign(signer, hashes.SHA256()))
    return paths


def _paths(folder: Path, name: str) -> tuple[Path, Path]:
    if not 0 < len(name) <= COMMON_NAME_LENGTH_MAX or not name.isprintable() or "/" in name:
        what = f"1 to {COMMON_NAME_LENGTH_MAX} visible characters without a slash"
        raise UserError(f"the name is {name[:80]!r}; expected {what}")
    if name.startswith("."):
        raise UserError(f"the name is {name!r}; expected one that does not begin with a dot")
    return folder / f"{name}.pem", folder / f"{name}.key"


def _refuse_old(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            raise UserError(f"{path}: it is there already, and others may rely on it")


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    now: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        if not host or any(character in host for character in " /:"):
            raise ValueError
        return x509.DNSName(host)
    except ValueError:
        what = "expected a name such as broker.example or an address, without a port"
        raise UserError(f"the host is {host[:80]!r}; {what}") from None


def _write(
    paths: tuple[Path, Path], key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    in_pem = serialization.Encoding.PEM
    secret = key.private_bytes(
        in_pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(paths[1], secret)
    write_private(paths[0], certificate.public_bytes(in_pem))
