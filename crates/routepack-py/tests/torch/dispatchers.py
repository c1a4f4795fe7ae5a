"""Column maps: every model that is laid out by a state has its own, and they take what routers and dispatchers have."""

import torch
import torch.distributed as dist

import routepack
from moe import EXPERTS, IDENTITY, LAYERS, Trainer, draw, equal
from routepack.torch import ColumnMap, MapMismatch, Mover, load_logical, save_logical
from routepack.torch.peers import Peers
from shared import SMALL, everybody_says, fails, steps


def of_the_identity():
    return [ColumnMap(EXPERTS) for _ in range(LAYERS)]


def in_force(state, columns):
    return [column_map.phys2log.tolist() for column_map in columns] == [state.phys2log(layer) for layer in range(LAYERS)]


def dispatchers_of_every_model_follow(folder):
    """A reference's mover, or a load of it, once took the actor's dispatchers out of every check."""
    trainer, reference, old = Trainer(2, IDENTITY), of_the_identity(), of_the_identity()
    steps(trainer, 1)
    mover = Mover(trainer.state, trainer.columns, SMALL)
    before = trainer.log_probs()
    Mover(trainer.state, reference, SMALL).move(draw(1))
    assert in_force(trainer.state, trainer.columns) and in_force(trainer.state, reference)
    assert torch.equal(before, trainer.log_probs())
    save_logical(trainer.state, folder / "models", trainer.columns)
    load_logical(trainer.state, folder / "models", old, draw(2))
    mover.move(draw(3))
    assert all(in_force(trainer.state, columns) for columns in [trainer.columns, reference, old])
    assert len(trainer.state.column_maps) == 3 * LAYERS
    # Any of them is compared.
    for columns in [trainer.columns, reference, old]:
        held = columns[1].phys2log.clone()
        columns[1].phys2log.copy_(torch.arange(EXPERTS))
        fails(MapMismatch, "the column map of layer 1 is not the map in force", trainer.state.check)
        columns[1].phys2log.copy_(held)
    fails(routepack.RoutePackError, "the column map of layer 0 is that of layer 1 already", lambda: Mover(trainer.state, reference[::-1]))
    trainer.state.column_maps.clear()
    meta = [ColumnMap(EXPERTS).to("meta") for _ in range(LAYERS)]
    fails(routepack.RoutePackError, "the column map of layer 0 is on no device yet", lambda: Mover(trainer.state, meta))


def ids_of_every_type_become_slots(folder):
    column_map = ColumnMap(EXPERTS)
    column_map.phys2log.copy_(torch.tensor([3, 0, 1, 2, 7, 4, 5, 6]))
    slot = [1, 2, 3, 0, 5, 6, 7, 4]
    for dtype in [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]:
        ids = torch.tensor([[0, 1, 1, 0], [7, 3, 0, 5]], dtype=dtype)
        found = column_map.slots(ids)
        assert found.dtype == torch.int64 and found.tolist() == [[slot[one] for one in row] for row in ids.tolist()], dtype
    # Dropped and padded ids are no expert's.
    assert column_map.slots(torch.tensor([[-1, 3], [4, -100]])).tolist() == [[-1, slot[3]], [slot[4], -100]]
    for wrong in [torch.ones(EXPERTS, dtype=torch.bool), torch.tensor([1.0, 2.0])]:
        fails(routepack.RoutePackError, "ids of experts: expected integers", lambda: column_map.slots(wrong))
    fails(routepack.RoutePackError, "ids of experts: 8, there are experts 0 to 7", lambda: column_map.slots(torch.tensor([2, 8])))
    probs, chosen = torch.rand(3, EXPERTS), torch.ones(3, EXPERTS).bool()
    for what, given in [("probs", (torch.rand(3, 16), chosen)), ("routing_map", (probs, torch.ones(3, 4).bool())), ("probs", (torch.tensor(1.0), chosen))]:
        fails(routepack.RoutePackError, f"{what}: shape", lambda: column_map(*given))


def one_that_does_not_fit_any_more_is_refused_before_anything_changes(folder):
    """On one rank: a load once tore all, a move told of a stack, and a comparison left the others waiting."""
    good = folder / "fit"
    save_logical(Trainer(2, IDENTITY).state, good)
    for wrong, words in [(torch.arange(5), "has torch.int64 [5], expected 8 experts"), (torch.arange(EXPERTS).int(), "has torch.int32 [8]")]:
        trainer, still = Trainer(2, IDENTITY), Trainer(2, IDENTITY)
        trainer.state.follow(trainer.columns)
        trainer.state.peers = Peers(8.0)
        trainer.state.agree()
        if dist.get_rank() == 2:
            trainer.columns[1].phys2log = wrong
        for work in [
            trainer.state.agree,
            lambda: Mover(trainer.state).move(draw(4)),
            lambda: save_logical(trainer.state, folder / "unfit"),
            lambda: load_logical(trainer.state, good),
        ]:
            heard = everybody_says(work)
            assert heard[2].startswith("RoutePackError: ") and all(f"the column map of layer 1 {words}" in one for one in heard), heard
            assert not trainer.state.torn
        if dist.get_rank() == 2:
            fails(routepack.RoutePackError, "the column map of layer 1 has", trainer.train_step)
            trainer.columns[1].phys2log = torch.arange(EXPERTS)
        dist.barrier()
        Mover(trainer.state).move(draw(4))
        assert equal(trainer.canonical(), still.canonical())


def one_that_was_made_for_inference_follows(folder):
    """It could not be written where it was to, after all weights had moved."""
    trainer = Trainer(2, IDENTITY)
    with torch.inference_mode():
        reference = of_the_identity()
    trainer.state.follow(reference)
    Mover(trainer.state, trainer.columns).move(draw(4))
    assert in_force(trainer.state, reference) and in_force(trainer.state, trainer.columns)


CASES = [
    one_that_does_not_fit_any_more_is_refused_before_anything_changes,
    one_that_was_made_for_inference_follows,
    dispatchers_of_every_model_follow,
    ids_of_every_type_become_slots,
]
