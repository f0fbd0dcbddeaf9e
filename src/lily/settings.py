"""Everything that can be set, as one frozen tree read once in `apps/`.

Values come from `LILY_…` variables, else from `lily.env` in the data directory, which `lily up` writes for
the parts it starts itself. Setting a part's URL in the environment replaces that part by an external one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lily.domain.errors import MisconfiguredError
from lily.domain.tenants import TENANT_NAME

ENV_FILE = "lily.env"
#: Under `run/`: there while a warm streams process stands by.
STANDBY_MARKER = "standby"
#: Under `run/`: made by a dispatcher that has begun.
DISPATCHER_MARKER = "dispatcher"
#: Under `run/`: there while a scraper takes jobs.
SCRAPER_MARKER = "scraper"


class _Slice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(_Slice):
    """Where the log is. `username` and `password` switch SASL/PLAIN on.

    `tls` encrypts; `tls_ca` is the file of the authority to trust instead of the machine's, `tls_client` the
    file with key and certificate that Lily shows to a broker that asks for them (PEM, the key in the clear).
    """

    bootstrap_servers: str
    username: str = ""
    password: SecretStr = SecretStr("")
    tls: bool = False
    tls_ca: str = ""
    tls_client: str = ""
    topic_prefix: str = ""
    partitions: int = 12
    replication_factor: int = 1


class DatabaseSettings(_Slice):
    """Where PostgreSQL is: `postgresql://user:password@host:port/database`, for the owner of the tables.

    The gateway connects there with a role of its own, which row-level security holds. TLS is asked for in the
    URL: `…?sslmode=verify-full&sslrootcert=/file`.
    """

    url: SecretStr
    gateway_role: str = "lily_gateway"
    gateway_password: SecretStr
    pool_size: int = 8

    @property
    def gateway_url(self) -> str:
        """The same database, for the gateway's role."""
        url = urlsplit(self.url.get_secret_value())
        place = url.netloc.rpartition("@")[2]
        password = quote(self.gateway_password.get_secret_value(), safe="")
        return urlunsplit(url._replace(netloc=f"{quote(self.gateway_role, safe='')}:{password}@{place}"))


class LakeSettings(_Slice):
    """Where the Iceberg tables are; their catalog is in the database unless `catalog_uri` is set."""

    warehouse: str
    namespace: str = "lily"
    catalog_uri: SecretStr = SecretStr("")


class SparkSettings(_Slice):
    """How the pipeline runs. `checkpoints` must outlive the process; `standby` keeps a second one warm."""

    checkpoints: str
    master: str = "local[4]"
    driver_memory: str = "900m"
    standby: bool = True
    jars: str = ""


class GatewaySettings(_Slice):
    """The public listener, its process count, and how long a synchronous write may wait.

    gRPC is served on `grpc_port`, if there is one.

    A certificate and its key (files, PEM) make it speak TLS; `tls_client` asks callers for a certificate of
    the authority `tls_client_ca`. Pages of the `cors_origins` (`https://a.example,…`) may call.
    An answer about lineage ends at `lineage_nodes` assets, and says so.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 0
    workers: int = 1
    wait_seconds: float = 10.0
    lineage_nodes: int = 200_000
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    tls_client: Literal["none", "optional", "required"] = "none"
    cors_origins: str = ""


class IssuerSettings(_Slice):
    """An identity provider whose tokens are believed, and what its claims mean here.

    The bearer belongs to `tenant`, or to the tenant in `tenant_claim` if it is one of `tenants`. `roles` says
    which roles a value of `groups_claim` is good for. `client_id` lets people log in to the console with it.
    """

    name: str = Field(pattern=r"^[a-z0-9-]{1,63}$")
    issuer: str
    audience: str = Field(min_length=1)
    tenant: str = Field("", pattern=f"^({TENANT_NAME})?$")
    tenant_claim: str = ""
    tenants: tuple[Annotated[str, Field(pattern=f"^{TENANT_NAME}$")], ...] = ()
    subject_claim: str = "preferred_username"
    groups_claim: str = "groups"
    roles: dict[str, tuple[str, ...]] = {}
    client_id: str = ""
    client_secret: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _safe_and_bound_to_tenants(self) -> Self:
        host = urlsplit(self.issuer)
        if host.scheme != "https" and host.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f"the issuer {self.issuer} must be an https URL")
        if bool(self.tenant) == bool(self.tenant_claim and self.tenants):
            raise ValueError(f"the issuer {self.name} needs either tenant, or tenant_claim and tenants")
        if self.client_id == self.audience:
            raise ValueError(
                f"the issuer {self.name}: client_id must not be the audience; see docs/access.md"
            )
        return self


class AuthSettings(_Slice):
    """The key that signs this installation's own tokens, and the identity providers it believes.

    `public_url` is where browsers see Lily; logging in to the console needs it.
    """

    secret: SecretStr = Field(min_length=32)
    issuers: tuple[IssuerSettings, ...] = ()
    public_url: str = ""


class AuditSettings(_Slice):
    """`key` seals the ends of the audit's chains; keep it from whoever administers the database.

    `proxies` lists the networks (`10.0.0.0/8,…`) whose `X-Forwarded-For` is believed.
    """

    key: SecretStr = Field(min_length=16)
    proxies: str = ""


class QuotaSettings(_Slice):
    """What a tenant may use that has no limits of its own; 0 is without limit."""

    requests_per_second: int = 5_000
    events_per_second: int = 100_000
    max_assets: int = 0
    max_bytes: int = 0


class SecretsSettings(_Slice):
    """The keys that encrypt secrets at rest: `keys` (`id:base64,…`, the first one encrypts), a file with the
    same, or the name of a key service's plug-in."""

    keys: SecretStr = SecretStr("")
    key_file: str = ""
    kms: str = ""


class TargetSettings(_Slice):
    """`allow` lists the receivers in the house, by network or host name (`10.1.0.0/16,hooks.corp.example`):
    targets are sent to at public addresses only, but for these."""

    allow: str = ""


class TelemetrySettings(_Slice):
    """`otlp_endpoint` is the one switch that exports traces; `trace_ratio` samples them."""

    otlp_endpoint: str = ""
    trace_ratio: float = 0.01
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"


class Settings(BaseSettings):
    """The whole tree; each part receives only its own slice."""

    model_config = SettingsConfigDict(
        env_prefix="LILY_", env_nested_delimiter="_", env_nested_max_split=1, frozen=True, extra="ignore"
    )

    data_dir: Path
    kafka: KafkaSettings
    database: DatabaseSettings
    lake: LakeSettings
    spark: SparkSettings
    gateway: GatewaySettings = GatewaySettings()
    auth: AuthSettings
    audit: AuditSettings
    quota: QuotaSettings = QuotaSettings()
    secrets: SecretsSettings = SecretsSettings()
    targets: TargetSettings = TargetSettings()
    telemetry: TelemetrySettings = TelemetrySettings()


def load_settings(data_dir: Path) -> Settings:
    """Read the environment and the data directory's file; a missing value fails here and is named."""
    try:
        return Settings(_env_file=data_dir / ENV_FILE, data_dir=data_dir)  # type: ignore[call-arg]
    except ValidationError as error:
        missing = ", ".join(variable for e in error.errors() for variable in _variables(e["loc"]))
        raise MisconfiguredError(
            f"cannot read the settings: {missing}. Set the variable, or let "
            f"`./lily up --data-dir {data_dir}` start the part and write it to {data_dir / ENV_FILE}.",
            variables=missing,
        ) from error


def _variables(place: tuple[int | str, ...]) -> list[str]:
    """The variables of a wrong or missing value; of a whole slice that is missing, those it must have."""
    name = "LILY_" + "_".join(str(part) for part in place).upper()
    kind = Settings.model_fields[str(place[0])].annotation if len(place) == 1 else None
    if not (isinstance(kind, type) and issubclass(kind, _Slice)):
        return [name]
    return [f"{name}_{field.upper()}" for field, said in kind.model_fields.items() if said.is_required()]
