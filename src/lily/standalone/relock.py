"""The maintainer's command that rewrites `artefacts.lock`: `python -m lily.standalone.relock`.

Change a version in `WANTED`, run it, read the difference, commit it. `--closure GROUP:ARTIFACT:VERSION` lists
what a coordinate drags in, to see what a new version needs.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lily.standalone.artefacts import LOCK_FILE, download, sha256_of
from lily.standalone.progress import Progress

KAFKA = "4.2.0"
JACKSON = "2.19.2"

#: The broker's closure is written out, without what only its tools, OAuth and tests need; `slf4j-simple` is
#: added so that the broker logs at all. Spark brings most of what its connectors need by itself.
WANTED: dict[str, list[str]] = {
    "kafka": [
        *(
            f"org.apache.kafka:{name}:{KAFKA}"
            for name in (
                "kafka_2.13",
                "kafka-clients",
                "kafka-coordinator-common",
                "kafka-group-coordinator",
                "kafka-group-coordinator-api",
                "kafka-metadata",
                "kafka-raft",
                "kafka-server",
                "kafka-server-common",
                "kafka-share-coordinator",
                "kafka-storage",
                "kafka-storage-api",
                "kafka-tools-api",
                "kafka-transaction-coordinator",
            )
        ),
        *(
            f"com.fasterxml.jackson.core:jackson-{name}:{JACKSON}"
            for name in ("annotations", "core", "databind")
        ),
        f"com.fasterxml.jackson.datatype:jackson-datatype-jdk8:{JACKSON}",
        "at.yawk.lz4:lz4-java:1.10.1",
        "com.dynatrace.hash4j:hash4j:0.22.0",
        "com.github.ben-manes.caffeine:caffeine:3.2.0",
        "com.github.luben:zstd-jni:1.5.6-10",
        "com.google.re2j:re2j:1.8",
        "com.typesafe.scala-logging:scala-logging_2.13:3.9.6",
        "com.yammer.metrics:metrics-core:2.2.0",
        "commons-logging:commons-logging:1.3.5",
        "commons-validator:commons-validator:1.10.1",
        "net.sf.jopt-simple:jopt-simple:5.0.4",
        "net.sourceforge.argparse4j:argparse4j:0.7.0",
        "org.apache.logging.log4j:log4j-api:2.25.3",
        "org.apache.logging.log4j:log4j-core:2.25.3",
        "org.hdrhistogram:HdrHistogram:2.2.2",
        "org.pcollections:pcollections:4.0.2",
        "org.scala-lang:scala-library:2.13.17",
        "org.slf4j:slf4j-api:1.7.36",
        "org.slf4j:slf4j-simple:1.7.36",
        "org.xerial.snappy:snappy-java:1.1.10.7",
    ],
    "spark": [
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.postgresql:postgresql:42.7.8",
        "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
    ],
}


def relock() -> None:
    """Download every wanted file and write its checksum and size."""
    total = sum(len(coordinates) for coordinates in WANTED.values())
    lines = ["# group, coordinate, SHA-256, bytes. Written by `python -m lily.standalone.relock`."]
    with tempfile.TemporaryDirectory() as scratch, Progress("Locking", total, 0) as progress:
        for group, coordinates in WANTED.items():
            for coordinate in coordinates:
                file = download(coordinate, Path(scratch), progress)
                lines.append(f"{group} {coordinate} {sha256_of(file)} {file.stat().st_size}")
                progress.finish_one()
    LOCK_FILE.write_text("\n".join(lines) + "\n")


def print_closure(coordinate: str) -> None:
    """List the runtime dependencies of a coordinate, as Maven would choose them."""
    from jgo.maven import MavenContext

    context = MavenContext(timeout=60)
    for dependency in context.resolver.resolve([context.create_dependency(coordinate)])[1]:
        print(dependency)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--closure"]:
        print_closure(sys.argv[2])
    else:
        relock()
