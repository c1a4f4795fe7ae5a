import os
from typing import Any, Callable, Sequence, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "FileError",
    "JobError",
    "NativeBatch",
    "Planning",
    "RoutePackError",
    "RoutesError",
    "VerifyError",
    "WindowError",
    "__version__",
    "check",
    "count",
    "export_plan",
    "filter_plans",
    "flat_runs",
    "held_bytes",
    "import_rollouts",
    "job_from_toml",
    "job_schema",
    "map_hash",
    "rank_move",
    "rank_place",
    "read_lengths",
    "read_plan",
    "report_html",
    "rows",
    "start",
    "verify_plan",
    "write_texts",
]

__version__: str

class RoutePackError(ValueError): ...
class WindowError(RoutePackError): ...
class JobError(RoutePackError): ...
class RoutesError(RoutePackError): ...
class FileError(RoutePackError): ...
class VerifyError(RoutePackError): ...

@final
class NativeBatch:
    def __new__(
        cls,
        lengths: npt.NDArray[np.uint32],
        counts: Any = None,
        routed_rows: npt.NDArray[np.uint32] | None = None,
        loss_tokens: npt.NDArray[np.uint32] | None = None,
        ids: Sequence[int] | Sequence[str] | None = None,
        prompt_ids: npt.NDArray[np.int64] | None = None,
        atomic_groups: npt.NDArray[np.int64] | None = None,
        step: npt.NDArray[np.int64] | None = None,
        cost: npt.NDArray[np.uint32] | None = None,
    ) -> NativeBatch: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> NativeBatch: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def check(self, top_k: int) -> None: ...
    def arrays(self) -> dict[str, Any]: ...
    def ids(self) -> list[int] | list[str] | None: ...
    def sha256(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Planning:
    def result(self, timeout: float | None = None) -> list[tuple[str, str]]: ...
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    def progress(self) -> tuple[str, float]: ...

def start(
    batch: NativeBatch,
    job: str,
    resident: list[list[int]] | None = None,
    deadline_ms: int | None = None,
    threads: int | None = None,
    strict: bool = True,
    peers: tuple[int, int, Callable[[bytes], list[bytes]]] | None = None,
) -> Planning: ...
def filter_plans(
    plans: list[tuple[str, str]], batch: NativeBatch, samples: Sequence[int], dummy_length: int
) -> list[tuple[str, str]]: ...
def verify_plan(plan: str, batch: NativeBatch) -> list[tuple[str, str]]: ...
def report_html(plan: str, batch: NativeBatch) -> str: ...
def read_plan(path: str | os.PathLike[str]) -> tuple[str, list[str]]: ...
def write_texts(files: Sequence[tuple[str | os.PathLike[str], str]]) -> None: ...
def job_from_toml(path: str | os.PathLike[str]) -> str: ...
def job_schema() -> str: ...
def export_plan(plan: str, framework: str) -> str: ...
def count(
    ids: npt.NDArray[Any], num_experts: int, mask: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.uint32], int]: ...
def import_rollouts(path: str | os.PathLike[str], form: str, options: str) -> tuple[NativeBatch, str]: ...
def rows(
    lengths: npt.NDArray[np.uint64],
    capacity: int,
    dp: int = 1,
    rows_multiple: int = 1,
    max_samples: int | None = None,
    pad_multiple: int = 1,
    cells: bool = False,
    deadline_ms: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> dict[str, Any]: ...
def check(certificate: str, lengths: npt.NDArray[np.uint64], pad_multiple: int = 1) -> dict[str, Any]: ...

def map_hash(log2phys: Sequence[Sequence[int]]) -> str: ...
def rank_move(
    topology: str,
    state: str,
    options: str,
    resident: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    rank: int,
) -> str: ...
def flat_runs(
    topology: str, state: str, layers: int, kind: int, rank: int
) -> list[tuple[int, int, int, int, int, int, int]]: ...
def held_bytes(topology: str, state: str, layers: int, kind: int, rank: int) -> list[int]: ...
def rank_place(topology: str, layers: int, rank: int) -> tuple[int, int, int, int, int, list[int]]: ...
def read_lengths(path: str | os.PathLike[str], form: str) -> tuple[npt.NDArray[np.uint64], int | None]: ...
