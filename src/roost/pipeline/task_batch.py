"""Which batch of which stream a task is of."""

from __future__ import annotations

from typing import NamedTuple

# How Spark tells its tasks. The id of a query is that of its checkpoint, whoever runs it.
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


class TaskBatch(NamedTuple):
    """A batch of a stream."""

    query: str
    batch: int


def batch_of_task() -> TaskBatch | None:
    """The batch that this task is of; None if it is of no stream."""
    from pyspark import TaskContext  # noqa: PLC0415 (a task has loaded it)

    context = TaskContext.get()
    if context is None:
        return None
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    return TaskBatch(query, int(batch)) if query and batch else None
