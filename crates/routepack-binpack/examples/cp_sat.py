"""The same instances with OR-tools' CP-SAT, by assignment: one line an instance, as `beside_models` prints them.

    pip install ortools
    python3 crates/routepack-binpack/examples/cp_sat.py SECONDS FILE...

x[i, b]: item i is in bin b; load[b] <= C*used[b]; bins are used in order; as many bins as first-fit decreasing needs.
One worker, so that it has what the others have.
"""

import math
import pathlib
import sys
import time

from ortools.sat.python import cp_model


def read(path):
    count, capacity, *rest = map(int, pathlib.Path(path).read_text().split())
    if len(rest) != count:
        rest = [size for size, demand in zip(rest[::2], rest[1::2]) for _ in range(demand)]
    return sorted(rest, reverse=True), capacity


def first_fit_decreasing(sizes, capacity):
    loads = []
    for size in sizes:
        for place, load in enumerate(loads):
            if load + size <= capacity:
                loads[place] += size
                break
        else:
            loads.append(size)
    return len(loads)


def solve(sizes, capacity, seconds):
    bins = first_fit_decreasing(sizes, capacity)
    model = cp_model.CpModel()
    used = [model.new_bool_var(f"y{b}") for b in range(bins)]
    for b in range(1, bins):
        model.add_implication(used[b], used[b - 1])
    inside = [[model.new_bool_var(f"x{i}.{b}") for b in range(min(bins, i + 1))] for i in range(len(sizes))]
    for row in inside:
        model.add_exactly_one(row)
    for b in range(bins):
        load = sum(size * row[b] for size, row in zip(sizes, inside) if b < len(row))
        model.add(load <= capacity * used[b])
    model.add(sum(used) >= math.ceil(sum(sizes) / capacity))
    model.minimize(sum(used))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return (round(solver.objective_value) if found else bins), solver.best_objective_bound, status == cp_model.OPTIMAL


def main():
    seconds = float(sys.argv[1])
    print("instance\tway\tbins\tbound\tseconds\tproved")
    for path in sys.argv[2:]:
        sizes, capacity = read(path)
        start = time.perf_counter()
        bins, bound, proved = solve(sizes, capacity, seconds)
        taken = time.perf_counter() - start
        print(f"{pathlib.Path(path).stem}\tcp-sat\t{bins}\t{bound:.2f}\t{taken:.2f}\t{'yes' if proved else 'no'}", flush=True)


if __name__ == "__main__":
    main()
