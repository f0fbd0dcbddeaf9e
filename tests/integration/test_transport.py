"""What crosses the network is encrypted when the settings say so, and strangers do not get through."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic import SecretStr
from rest_kit import gateway

from kit.certificates import Authority, TlsPort
from kit.tls_fronts import tls_front
from lily.log.producer import client_config
from lily.pipeline.sources import kafka_options
from lily.repositories.iceberg.catalog import catalog_config
from lily.settings import GatewaySettings, KafkaSettings, Settings
from lily.standalone.ports import free_port


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "our-authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "another-authority")


@contextmanager
def listening(settings: Settings, authority: Authority, **tls: str) -> Iterator[str]:
    """A gateway that speaks TLS, for settings that need no database."""
    server = authority.sign("server")
    said = GatewaySettings(tls_certificate=server.certificate, tls_key=server.key, **tls)  # type: ignore[arg-type]
    with gateway(settings.model_copy(update={"gateway": said})) as running:
        yield str(running.client.base_url)


def client(authority: Authority, signed_by: Authority | None = None) -> httpx.Client:
    context = ssl.create_default_context(cafile=authority.file)
    if signed_by:
        shown = signed_by.sign("client")
        context.load_cert_chain(shown.certificate, shown.key)
    return httpx.Client(verify=context, timeout=10)


def test_a_listener_with_a_certificate_speaks_tls_and_nothing_else(
    shared_settings: Settings, authority: Authority, stranger: Authority
) -> None:
    with listening(shared_settings, authority) as url:
        with client(authority) as trusting:
            answer = trusting.get(f"{url}/livez")
        assert answer.status_code == 200
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        with (
            client(stranger) as doubting,
            pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            doubting.get(f"{url}/livez")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url.replace('https', 'http')}/livez")


def test_a_listener_that_requires_client_certificates_refuses_callers_without_ours(
    shared_settings: Settings, authority: Authority, stranger: Authority
) -> None:
    with listening(shared_settings, authority, tls_client="required", tls_client_ca=authority.file) as url:
        with client(authority, signed_by=authority) as ours:
            assert ours.get(f"{url}/livez").status_code == 200
        for foreign in (None, stranger):
            with client(authority, signed_by=foreign) as refused, pytest.raises(httpx.TransportError):
                refused.get(f"{url}/livez")


def test_a_listener_with_optional_client_certificates_refuses_only_foreign_ones(
    shared_settings: Settings, authority: Authority, stranger: Authority
) -> None:
    with listening(shared_settings, authority, tls_client="optional", tls_client_ca=authority.file) as url:
        for shown in (None, authority):
            with client(authority, signed_by=shown) as welcome:
                assert welcome.get(f"{url}/livez").status_code == 200
        with client(authority, signed_by=stranger) as refused, pytest.raises(httpx.TransportError):
            refused.get(f"{url}/livez")


def test_the_grpc_listener_has_the_same_certificate_and_the_same_demand(
    shared_settings: Settings, authority: Authority, stranger: Authority
) -> None:
    port = free_port()
    demand = {"tls_client": "required", "tls_client_ca": authority.file, "grpc_port": str(port)}

    def status(trusted: Authority, signed_by: Authority | None) -> int:
        shown = signed_by.sign("client") if signed_by else None
        files = [
            Path(file).read_bytes() if file else None for file in (trusted.file, *(shown or (None, None))[:2])
        ]
        credentials = grpc.ssl_channel_credentials(files[0], files[2], files[1])
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
            return int(answer.status)

    with listening(shared_settings, authority, **demand):
        assert status(authority, authority) == health_pb2.HealthCheckResponse.SERVING
        for trusted, signed_by in ((authority, None), (authority, stranger), (stranger, authority)):
            with pytest.raises(grpc.RpcError):
                status(trusted, signed_by)
        with pytest.raises(grpc.RpcError), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)


def test_postgresql_is_reached_over_tls_and_only_with_the_right_authority(
    database: str, authority: Authority, stranger: Authority
) -> None:
    server = authority.sign("postgres")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate, server.key)
    with tls_front(database, context) as url:
        checked = f"{url}?sslmode=verify-full&sslrootcert="
        with psycopg.connect(checked + authority.file) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            psycopg.connect(checked + stranger.file)


def test_what_the_url_says_about_tls_reaches_the_gateway_and_the_lake(shared_settings: Settings) -> None:
    url = shared_settings.database.url.get_secret_value() + "?sslmode=verify-full&sslrootcert=/ca.pem"
    database = shared_settings.database.model_copy(update={"url": SecretStr(url)})
    settings = shared_settings.model_copy(update={"database": database})
    assert settings.database.gateway_url.endswith("?sslmode=verify-full&sslrootcert=/ca.pem")
    lake = catalog_config(settings)["spark.sql.catalog.lake.uri"]
    assert lake.endswith("?sslmode=verify-full&sslrootcert=%2Fca.pem")


def test_kafka_s_clients_trust_one_authority_and_show_a_certificate(
    authority: Authority, stranger: Authority
) -> None:
    """A TLS server that asks for a certificate: librdkafka's handshake succeeds and fails as it should."""
    server = authority.sign("broker")
    shown = authority.sign("lily")

    def failure(ca: str, client_file: str) -> str:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
        context.load_cert_chain(server.certificate, server.key)
        context.verify_mode = ssl.CERT_REQUIRED
        with TlsPort(context) as port:
            settings = KafkaSettings(
                bootstrap_servers=f"127.0.0.1:{port.number}", tls=True, tls_ca=ca, tls_client=client_file
            )
            AdminClient(client_config(settings) | {"socket.connection.setup.timeout.ms": 2000}).poll(1)
            return port.outcome()

    assert failure(authority.file, shown.both) == "handshake"
    assert failure(stranger.file, shown.both) != "handshake"
    assert failure(authority.file, stranger.sign("foreign").both) != "handshake"


def test_spark_is_told_the_same_about_kafka_s_tls() -> None:
    settings = KafkaSettings(bootstrap_servers="b:1", tls=True, tls_ca="/ca.pem", tls_client="/lily.pem")
    options = kafka_options(settings)
    assert options["kafka.security.protocol"] == "SSL"
    assert options["kafka.ssl.truststore.location"] == "/ca.pem"
    assert options["kafka.ssl.keystore.location"] == "/lily.pem"
    assert options["kafka.ssl.keystore.type"] == options["kafka.ssl.truststore.type"] == "PEM"
