"""Found by Spark: it looks for packages `pyspark_*` and takes their `DefaultSource` as a data source.

So `spark.read.format("roost")` works wherever Roost is installed, from SQL and under `spark-submit` too,
without a word from Roost in the program. See `roost.pipeline.source.data_source`.
"""

from contextlib import suppress

# Spark imports this in every session, also where Roost is installed without what its source needs: there it
# has no source, and Spark says that it doesn't know the format.
with suppress(ImportError):
    from roost.pipeline.source.data_source import RoostDataSource as DefaultSource

    __all__ = ["DefaultSource"]
