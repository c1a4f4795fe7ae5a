"""Expert placement and certified micro-batches for MoE reinforcement learning, from recorded rollouts.

    counts, rows = routepack.count(ids, num_experts)              # at the rollout worker
    batch = routepack.Batch(lengths, counts=[...], routed_rows=[...])
    planning = routepack.start(batch, job, deadline_ms=200)       # a thread; goes on while you do
    plan = planning.result()
    plan.micro_batches(dp_rank=0)                                 # int32 indices in input order

See the README for the ten-minute page.
"""

from ._missing import MissingPackageError
from ._native import (
    FileError,
    JobError,
    RoutePackError,
    RoutesError,
    VerifyError,
    WindowError,
    __version__,
)
from .batch import Batch
from .job import job_schema
from .plan import Plan
from .planning import Planning, plan, start
from .routes import Imported, count, import_rollouts
from .rows import Checked, Rows, check, pack, rows

__all__ = [
    "Batch",
    "Checked",
    "FileError",
    "Imported",
    "JobError",
    "MissingPackageError",
    "Plan",
    "Planning",
    "RoutePackError",
    "RoutesError",
    "Rows",
    "VerifyError",
    "WindowError",
    "__version__",
    "check",
    "count",
    "import_rollouts",
    "job_schema",
    "pack",
    "plan",
    "rows",
    "start",
]
