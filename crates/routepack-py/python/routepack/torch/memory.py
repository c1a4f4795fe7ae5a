"""Tensors as bytes that can be written where they lie, and the refusal of all others."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

import torch
from torch import Tensor

from .._native import RoutePackError


def as_bytes(tensor: Tensor, place: str = "a tensor") -> Tensor:
    """A tensor's bytes, sharing its memory."""
    if not isinstance(tensor, Tensor):
        raise RoutePackError(f"{place}: expected a tensor, found {type(tensor).__name__}")
    if tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        # DTensor, Float8Tensor, …: what is written to them is sharded or quantised on its way.
        raise RoutePackError(f"{place} is a {_kind(tensor)}: its bytes are elsewhere; give the plain tensor that holds them")
    if not tensor.is_contiguous():
        raise RoutePackError(f"{place} of shape {list(tensor.shape)} is not contiguous: its bytes cannot be moved in place")
    if _end(tensor) > _storage_bytes(tensor):
        raise RoutePackError(f"{place} of shape {list(tensor.shape)} has no memory: it was given back, as offloading does")
    return tensor.detach().reshape(-1).view(torch.uint8)


def _kind(tensor: Tensor) -> str:
    if tensor.is_meta:
        return "meta tensor"
    if tensor.layout != torch.strided:
        return f"tensor of layout {tensor.layout}"
    if tensor.is_quantized:
        return "quantised tensor"
    return "lazily conjugated or negated view" if tensor.is_conj() or tensor.is_neg() else type(tensor).__name__


def brief(error: BaseException) -> str:
    """An error in a line: a KeyError of a parameter would print the parameter."""
    line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {line if len(line) <= 120 else line[:117] + '…'}"


def _end(tensor: Tensor) -> int:
    return int(tensor.storage_offset() + tensor.numel()) * tensor.element_size() if tensor.numel() else 0


def _storage_bytes(tensor: Tensor) -> int:
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return int(storage.nbytes())


def asked(place: str, where: Callable[..., Any], *what: int) -> Any:
    """What a trainer's function gives; the same memory each time."""
    try:
        first, again = where(*what), where(*what)
    except Exception as error:
        raise RoutePackError(f"{place}: cannot be had: {brief(error)}") from error
    tensors = [one[1] if isinstance(one, tuple) else one for one in (first, again)]
    if all(isinstance(one, Tensor) and not one.is_meta and one.layout == torch.strided for one in tensors) and tensors[0].data_ptr() != tensors[1].data_ptr():
        raise RoutePackError(f"{place} is in other memory each time it is asked for, a copy: what is written there is lost")
    return first


def check_elements(tensor: Tensor, element_bytes: int, place: str) -> None:
    """A set has elements of one size."""
    if tensor.element_size() != element_bytes:
        raise RoutePackError(f"{place} has elements of {tensor.element_size()} bytes ({tensor.dtype}), expected {element_bytes}")


def check_slots(
    name: str, where: Callable[..., Any], places: Iterable[tuple[int, int, int]], element_bytes: int, tensors: Mapping[str, int]
) -> None:
    """Every tensor held by slot on this rank has the elements it is said to have, behind each other."""
    names = list(tensors)
    for layer, slot, index in places:
        place = f"{name}: layer {layer}, slot {slot}, {names[index]}"
        tensor = asked(place, where, layer, slot, index)
        found, expected = as_bytes(tensor, place).numel(), tensors[names[index]] * element_bytes
        if found != expected:
            raise RoutePackError(f"{place} has {found} bytes, expected {expected}")
        check_elements(tensor, element_bytes, place)


def check_apart(held: Iterable[tuple[str, Tensor]]) -> None:
    """No byte is in two places: it would be moved twice, and to two places."""
    spans = sorted(
        (str(tensor.device), tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size(), place)
        for place, tensor in held
        if tensor.numel() and tensor.data_ptr()
    )
    for (device, _, end, place), (other, begin, _, follower) in zip(spans, spans[1:]):
        if device == other and begin < end:
            raise RoutePackError(f"{follower} and {place} are in the same memory, which can be in one place only")
