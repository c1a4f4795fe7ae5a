"""What cannot be moved yet, refused by name before anything is registered."""

from __future__ import annotations

from typing import Any, Iterable

from torch import nn

from .._native import RoutePackError


class Unsupported(RoutePackError):
    """State of this kind does not follow a placement yet."""


def refuse_unsupported(model: nn.Module | Iterable[nn.Module], optimizer: Any = None, physical_router: bool = False) -> None:
    """Raises Unsupported for state that would not follow its experts.

    ``model``: or its chunks, as Megatron has them. ``physical_router``: whether the router itself speaks of slots (ours is logical, with a ColumnMap behind it).
    """
    chunks = [model] if isinstance(model, nn.Module) or not isinstance(model, Iterable) else list(model)
    for chunk in chunks:
        if not isinstance(chunk, nn.Module):
            raise RoutePackError(f"model: expected a module or a list of its chunks, found {type(chunk).__name__}")
    for part in _optimizers(optimizer):
        name = type(part).__name__
        if "muon" in name.lower():
            raise Unsupported(f"{name}: whole-matrix optimizers hold state that is no function of one element")
        if "hybriddevice" in name.lower() or getattr(part, "offload_fraction", None):
            raise Unsupported(f"{name}: hybrid-device offload splits the state of one expert between devices")
    for name, parameter in (one for chunk in chunks for one in chunk.named_parameters()):
        # A DTensor whose first axis is experts: FSDP2 shards inside the stack.
        if hasattr(parameter, "placements") and parameter.ndim == 3:
            raise Unsupported(f"{name}: experts stacked in one FSDP2 parameter")
    for name, module in (one for chunk in chunks for one in chunk.named_modules()):
        config = getattr(module, "config", None)
        if _delayed(module, config):
            raise Unsupported(f"{name}: FP8 with delayed scaling keeps histories per slot; use current or block scaling")
        limited = getattr(config, "moe_router_num_groups", None) or getattr(config, "moe_router_topk_limited_devices", None)
        if physical_router and limited:
            raise Unsupported(f"{name}: a router of slots under group-limited routing would choose other groups")


def _delayed(module: nn.Module, config: Any) -> bool:
    """Whether a module scales by histories: as Megatron's settings have it, or as Transformer Engine does."""
    if getattr(config, "fp8", None) and str(getattr(config, "fp8_recipe", "delayed")) in ("delayed", "Fp8Recipe.delayed"):
        return True
    meta = getattr(module, "fp8_meta", None)
    recipe = meta.get("recipe") if isinstance(meta, dict) else None
    told = getattr(recipe, "delayed", None)
    # Before its second version there was no other recipe, and no word for it; one is there although FP8 is off.
    delayed = bool(told()) if callable(told) else type(recipe).__name__ == "DelayedScaling"
    return delayed and bool(getattr(module, "fp8", True) or getattr(module, "primary_weights_in_fp8", False))


def _optimizers(optimizer: Any) -> list[Any]:
    """An optimizer and what it wraps (Megatron chains them)."""
    found: list[Any] = []
    waiting = [optimizer]
    while waiting:
        part = waiting.pop()
        if part is None or any(part is one for one in found):
            continue
        found.append(part)
        waiting.append(getattr(part, "optimizer", None))
        waiting.extend(getattr(part, "chained_optimizers", None) or [])
    return found
