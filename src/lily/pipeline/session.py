"""The Spark session all queries share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lily.repositories.iceberg.catalog import catalog_config
from lily.settings import Settings

STRUCTURAL_POOL = "structural"
LEAF_POOL = "leaf"
HISTORY_POOL = "history"

_POOL = """  <pool name="{}">
    <schedulingMode>FIFO</schedulingMode><weight>{}</weight><minShare>{}</minShare>
  </pool>
"""
#: Weight and minimum share of each pool: a flood of columns must not delay a table.
_POOLS = {STRUCTURAL_POOL: (16, 2), LEAF_POOL: (4, 0), HISTORY_POOL: (1, 0)}

#: Optimiser rules that find nothing in a chain of projections. Spark plans every micro-batch anew, and trying
#: them took half of that time.
_IDLE_RULES = [
    "CollapseProject",
    "RemoveRedundantAliases",
    "SimplifyConditionals",
    "FoldablePropagation",
    "ColumnPruning",
    "OptimizeOneRowRelationSubquery",
    "OptimizeCsvJsonExprs",
    "MergeScalarSubqueries",
    "UnwrapCastInBinaryComparison",
    "EliminateAggregateFilter",
    "ReplaceNullWithFalseInPredicate",
    "ReorderAssociativeOperator",
    "OptimizeWindowFunctions",
    "OptimizeIn",
    "CombineConcats",
    "BooleanSimplification",
]

# Why, for the settings that are not plain:
# - Hadoop's local file system forks `chmod` for every checkpoint file; the bare one does not. Measured at
#   10,000 events/s: p99 0.41 s instead of 0.93 s. It sets no permissions, so the data directory is 0700.
# - What Spark generates to read changes for the lake is larger than what the JVM compiles by default.
# - Spark plans every micro-batch anew, through tens of thousands of methods, each called a little. The JVM's
#   optimising compiler would take up to a core just when there is a new kind of work to do (ADR 34).
# - Spark describes the plan of every micro-batch to listeners, twice: formatted, 8 % of the JVM's time.
# - A consumer asks for the log's end in one request; Spark's admin client takes two and a thread of its own.
#   Measured at rest: the JVM 10.6 % of a core instead of 15.6 %, Kafka 6.2 % instead of 13 %. Spark calls it
#   deprecated because a consumer may wait for a broker that is away; here a query has nothing else to do.
# - With any other limit of bytes Spark measures the whole Arrow batch after every row it adds: 200,000 rows
#   to the executors' Python took 55 s. The limit of records bounds the memory.
_CONFIG = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _IDLE_RULES
    ),
    "spark.driver.extraJavaOptions": " ".join(
        [
            "-XX:-DontCompileHugeMethods",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseParallelGC",
            "-Xms256m",
        ]
    ),
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.sql.streaming.noDataProgressEventInterval": "60000",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "8",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
}


def query_name(settings: Settings, name: str) -> str:
    """A query's name in the session: the same query runs once per cell."""
    return f"{settings.kafka.topic_prefix}{name}"


def start_session(settings: Settings) -> SparkSession:
    """A session with Kafka and Iceberg on its class path, one scheduler pool per lane."""
    pools = Path(settings.data_dir) / "run" / "pools.xml"
    pools.parent.mkdir(parents=True, exist_ok=True)
    entries = "".join(_POOL.format(name, *shares) for name, shares in _POOLS.items())
    pools.write_text(f"<allocations>\n{entries}</allocations>\n", encoding="utf-8")
    # The workers' Python is this one: PySpark looks here and nowhere else.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = settings.spark.jars.replace(",", ":")
    builder = SparkSession.builder.appName("lily").master(settings.spark.master)
    config = _CONFIG | {
        "spark.scheduler.allocation.file": f"file:{pools}",
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
    }
    for name, value in config.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # Not with the others: those are on the JVM's command line, which everybody on the machine can read.
    for name, value in catalog_config(settings).items():
        session.conf.set(name, value)
    session.sparkContext.setLogLevel("WARN")
    return session
