"""One installation: everything it keeps is under its data directory, and this is where each thing is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lily.domain.errors import MisconfiguredError

#: As `lily.settings` spells it, which takes half a second to import; a test holds the two together.
ENV_FILE = "lily.env"
#: What an interrupted first start may have left.
OWN_ENTRIES = {"run", "logs", "postgres", "kafka"}


@dataclass(frozen=True)
class Installation:
    """The paths of an installation; `data_dir` is absolute."""

    data_dir: Path

    @classmethod
    def at(cls, data_dir: Path) -> Installation:
        """The installation in this directory, which need not exist yet."""
        return cls(data_dir.expanduser().absolute())

    def refuse_foreign(self) -> None:
        """Do not settle among somebody else's files: `down --purge` removes the whole directory."""
        foreign = {entry.name for entry in self.data_dir.glob("*")} - OWN_ENTRIES
        if foreign and not self.env_file.exists():
            raise MisconfiguredError(
                f"{self.data_dir} is not a Lily installation and is not empty ({min(foreign)} …); "
                "choose an empty or new directory with --data-dir",
                data_dir=str(self.data_dir),
            )

    def create(self) -> None:
        """Make the directory, readable by its owner only: it holds secrets and data."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir.chmod(0o700)
        for folder in (self.run, self.logs):
            folder.mkdir(exist_ok=True)

    @property
    def env_file(self) -> Path:
        return self.data_dir / ENV_FILE

    @property
    def run(self) -> Path:
        return self.data_dir / "run"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def postgres(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def kafka(self) -> Path:
        return self.data_dir / "kafka"

    @property
    def metrics(self) -> Path:
        return self.run / "metrics"

    @property
    def state_file(self) -> Path:
        return self.run / "supervisor.json"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"
