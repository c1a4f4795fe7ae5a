"""Certified rows and bins of lengths alone."""

from __future__ import annotations



import pytest

import routepack as rp


def test_rows_are_certified_and_checked() -> None:
    lengths = [60, 50, 40, 30, 20, 10, 90, 100]
    found = rp.rows(lengths, 100, 2)
    assert (found.rows, found.rows_bound, found.proved, found.cells) == (2, 2, True, 4)
    assert sorted(index for cell in found.bins for index in cell) == list(range(8))
    checked = rp.check(found.certificate, lengths)
    assert (checked.rows, checked.rows_bound, checked.capacity, checked.dp, checked.samples) == (2, 2, 100, 2, 8)
    with pytest.raises(rp.VerifyError):
        rp.check(found.certificate, lengths[::-1])
    with pytest.raises(rp.VerifyError):
        rp.check(found.certificate.replace("rows-at-least 2", "rows-at-least 3"), lengths)
    assert [sum(lengths[index] for index in cell) <= 100 for cell in rp.pack(lengths, 100)] == [True] * 4
    rules = {"capacity": 100, "dp": 2, "rows_multiple": 1}
    assert rp.check(found.certificate, lengths, **rules) == checked
    for name, other in [("capacity", 101), ("dp", 4), ("rows_multiple", 2), ("max_samples", 3)]:
        with pytest.raises(rp.VerifyError, match=f"{name} = {other}: the certificate is one for {name} = "):
            rp.check(found.certificate, lengths, **{**rules, name: other})
    again = rp.rows(lengths, 100, 2)
    assert again == found and hash(again) == hash(found)
    padded = rp.rows(lengths, 128, 1, pad_multiple=64, max_samples=2)
    assert all(len(cell) <= 2 for cell in padded.bins) and rp.check(padded.certificate, lengths, 64).cells == padded.cells
    for wrong, error, message in [
        (lambda: rp.rows([101], 100), rp.WindowError, r"lengths\[0\] = 101"),
        (lambda: rp.rows([], 100), rp.WindowError, "no samples"),
        (lambda: rp.rows([1], 100, 0), rp.JobError, "dp = 0"),
        (lambda: rp.rows([1], -1), rp.JobError, "capacity = -1"),
        (lambda: rp.rows([1], 100, threads=1 << 40), rp.JobError, "threads"),
        (lambda: rp.check(found.certificate, lengths, 0), rp.JobError, "pad_multiple = 0"),
        (lambda: rp.rows([1], 100, pad_multiple=0), rp.JobError, "pad_multiple = 0"),
    ]:
        with pytest.raises(error, match=message):
            wrong()


def test_the_certificate_of_a_plan_is_checked_alone(batch: rp.Batch, plan: rp.Plan) -> None:
    checked = rp.check(plan.rows_certificate(), batch.arrays()["lengths"])
    assert checked.dp == 4 and checked.capacity == 256 and checked.rows_bound <= plan.num_rows()
