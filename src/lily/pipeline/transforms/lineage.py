"""What follows from all that was said about edges, from scratch: the edges, and which tags go over them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

EDGE = ["tenant_id", "from_id", "to_id", "relationship_type"]
RULE = ["along_lineage", "along_containment", "along_indirect", "stopped_by_masking"]
CONTAINS = "relationship_type = 'contains'"


def edges_of(assertions: DataFrame) -> DataFrame:
    """The edges that are asserted: they block what any source blocks, the rest is as the latest says."""
    clock = F.struct("clock_time", "clock_id")
    said = assertions.withColumn("clock", clock)
    retracted = said.where(F.col("source") == "*").select(*EDGE, F.col("clock").alias("retracted"))
    latest = F.max_by(F.struct("is_indirect", "is_masking", "subtype"), F.col("clock"))
    return (
        said.where("holds")
        .join(retracted, EDGE, "left")
        .where(F.col("retracted").isNull() | (F.col("clock") >= F.col("retracted")))
        .groupBy(*EDGE)
        .agg(
            latest.alias("latest"),
            F.sort_array(F.array_distinct(F.flatten(F.collect_list("blocked_tags")))).alias("blocked_tags"),
            F.sort_array(F.collect_list("source")).alias("sources"),
            F.max("clock_time").alias("asserted_at"),
        )
        .select(*EDGE, "latest.*", "blocked_tags", "sources", "asserted_at")
    )


def refinements_of(edges: DataFrame) -> DataFrame:
    """The pairs of assets with an edge between them and lineage between what they contain."""
    held = edges.where(CONTAINS).select("tenant_id", F.col("from_id").alias("holder"), "to_id")
    led = edges.where(f"NOT {CONTAINS}").select("tenant_id", "from_id", "to_id").distinct()
    above = held.select("tenant_id", F.col("holder").alias("above"), F.col("to_id").alias("from_id"))
    below = held.select("tenant_id", F.col("holder").alias("below"), "to_id")
    pairs = led.join(above, ["tenant_id", "from_id"]).join(below, ["tenant_id", "to_id"])
    columns = pairs.where("above <> below").select("tenant_id", "above", "below").distinct()
    return (
        columns.withColumnsRenamed({"above": "from_id", "below": "to_id"})
        .join(led, ["tenant_id", "from_id", "to_id"])
        .select("tenant_id", "from_id", "to_id")
    )


def rule_name() -> Column:
    """How a tag spreads, as one column: tags that spread alike are followed together."""
    return F.concat_ws(" ", *(F.col(name).cast("string") for name in RULE)).alias("rule")


def carriers_of(edges: DataFrame, refined: DataFrame, rules: DataFrame) -> DataFrame:
    """Over which edges the tags of each rule go, and whether they stand for a part only before and after.

    The tags an edge blocks one by one are still to be left out. The same as carried_as_partial of
    functions/lineage.sql, which this is there to check.
    """
    marked = edges.join(
        refined.withColumn("is_refined", F.lit(True)), ["tenant_id", "from_id", "to_id"], "left"
    )
    partial = F.explode(F.array(F.lit(False), F.lit(True))).alias("from_is_partial")
    contained = F.when(F.col("along_containment") & ~F.col("from_is_partial"), F.lit(False))
    led = F.when(
        F.col("along_lineage") & (~F.col("is_indirect") | F.col("along_indirect")),
        F.col("along_containment") & F.coalesce("is_refined", F.lit(False)),
    )
    return (
        marked.where(~F.array_contains("blocked_tags", "*"))
        .join(rules, "tenant_id")
        .where(~(F.col("is_masking") & F.col("stopped_by_masking")))
        .select("*", partial)
        .withColumn("to_is_partial", F.when(F.expr(CONTAINS), contained).otherwise(led))
        .where(F.col("to_is_partial").isNotNull())
        .select(*EDGE, rule_name(), "from_is_partial", "to_is_partial", "blocked_tags")
    )
