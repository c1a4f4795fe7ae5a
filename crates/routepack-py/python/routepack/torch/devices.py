"""Devices that messages can be sent from."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import torch
import torch.distributed as dist

from .._native import RoutePackError

SENDS = {"gloo": "cpu", "nccl": "cuda", "rccl": "cuda", "xccl": "xpu", "hccl": "npu"}
"""The one type of device that a backend has messages of; of other backends nobody knows."""


def backends() -> str:
    """As ``gloo``, or by type of device: ``cpu:gloo,cuda:nccl``."""
    return str(getattr(dist, "get_backend_config", dist.get_backend)())


def can_send(device: torch.device, told: str) -> bool:
    """Whether the trainer's own process group has messages there."""
    kind = str(device.type)
    if ":" not in told:
        return SENDS.get(told, kind) == kind
    backend = dict(one.split(":", 1) for one in told.split(",")).get(kind)
    return backend is not None and SENDS.get(backend, kind) == kind


def given(device: Any) -> torch.device | None:
    """A device by name."""
    try:
        return None if device is None else torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise RoutePackError(f"device = {device!r}: {(str(error).splitlines() or [''])[0]}") from None


def device_of(wanted: torch.device | None, held: Sequence[torch.device]) -> torch.device:
    """Where buffers of a move are: as wanted, or where the first set is that messages can be sent from, or the host.

    Raises:
        RoutePackError: the process group cannot send from there.
    """
    told = backends()
    cpu = torch.device("cpu")
    candidates = [wanted] if wanted is not None else [*held, cpu]
    for device in candidates:
        if can_send(device, told):
            return device
    if wanted is None and not held:
        return cpu
    names = sorted({str(device) for device in candidates})
    raise RoutePackError(f"device: the process group ({told}) has no messages on {' or '.join(names)}; give Mover a device that it has")


def finish(devices: Iterable[torch.device]) -> None:
    """Waits until what was begun on devices is done: under NCCL a request that was waited for may be under way still."""
    for device in set(devices):
        if device.type != "cpu":
            getattr(torch, device.type).synchronize(device)
