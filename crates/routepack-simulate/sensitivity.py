"""What simulated gains of placement and layout hang on, held against the paper's.

    python3 crates/routepack-simulate/sensitivity.py terms   # from the table of `routepack bench paper`, at once
    python3 crates/routepack-simulate/sensitivity.py runs 5  # windows with other routes and EP sizes, seeds 1 to 5

`terms`: every pipeline here has one stage, so the terms of a step add up; one of them is weighted otherwise, or time that
no layout changes is added, in all arms alike. `runs`: `routepack generate`, `plan --placement aggregate`, `simulate`.
Needs `routepack` on the path; standard library only.
"""

import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

TABLE = pathlib.Path(__file__).parents[1] / "routepack-bench" / "paper.csv"
STATED = {"tiny": (3.80, 8.85), "flash": (10.50, 14.89)}
MODELS = {"tiny": "ling-3.0-tiny-like", "flash": "ling-3.0-flash-like"}
TERMS = ("attention", "dense", "expert", "all_to_all", "gradients", "optimizer")


def gain(base, arm):
    return 100 * (base / arm - 1)


def windows(preset):
    """Terms of baseline, reorder and published on every window of the paper's table."""
    arms = {}
    with TABLE.open(newline="") as table:
        for line in csv.DictReader(table):
            if line["preset"] == preset:
                arms.setdefault(line["seed"], {})[line["arm"]] = {term: float(line[term]) for term in TERMS}
    return [[window[arm] for arm in ("baseline", "reorder", "published")] for window in arms.values()]


def weighted(preset, weights, idle=0.0):
    """Mean gains with terms so weighted and `idle` baseline steps of other work in every arm."""
    gains = []
    for window in windows(preset):
        base, *arms = (sum(weights.get(term, 1) * seconds for term, seconds in arm.items()) for arm in window)
        other = idle * sum(window[0].values())
        gains.append([gain(base + other, arm + other) for arm in arms])
    return [statistics.mean(column) for column in zip(*gains)]


def terms():
    for preset, stated in STATED.items():
        print(f"{preset}: reorder, published; the paper {stated[0]:+.2f}, {stated[1]:+.2f} %")
        cases = [("as simulated", {}, 0)]
        cases += [(f"experts x {weight}", {"expert": weight}, 0) for weight in (0.5, 0.2, 0.1, 0)]
        cases += [(f"all-to-all x {weight}", {"all_to_all": weight}, 0) for weight in (0, 4, 16)]
        cases += [(f"attention and dense x {weight}", {"attention": weight, "dense": weight}, 0) for weight in (0, 2, 4)]
        cases += [(f"other work of {idle} steps", {}, idle) for idle in (0.5, 1, 2, 4)]
        for name, weights, idle in cases:
            reorder, published = weighted(preset, weights, idle)
            print(f"  {name:<26} {reorder:+6.2f} {published:+6.2f}")
        for arm, name in enumerate(("reorder", "published")):
            idle = root(lambda idle: weighted(preset, {}, idle)[arm] - stated[arm], 64)
            print(f"  other work that alone gives the paper's {name}: {idle:.2f} baseline steps")

        def other(weight):
            return root(lambda idle: weighted(preset, {"expert": weight}, idle)[1] - stated[1], 64)

        weight = root(lambda weight: stated[0] - weighted(preset, {"expert": weight}, other(weight))[0], 2)
        print(f"  both of the paper's at once: experts x {weight:.2f} and other work of {other(weight):.2f} baseline steps")


def root(falling, high):
    """Where a falling function of 0 to `high` meets 0."""
    low = 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low

def runs(seeds):
    for preset in STATED:
        sd = {"tiny": 0.38, "flash": 0.45}[preset]
        cases = [("as in the preset", {}, None)]
        cases += [(f"unevenness of blocks x {part}", {"routing.sd_block": sd * part}, None) for part in (0, 0.25, 0.5)]
        cases += [(f"EP {ep}", {}, ep) for ep in (2, 4)]
        print(f"{preset}: gain of reorder and of the plan in %, CV of rank loads at the identity placement")
        for name, changes, ep in cases:
            lines = [run(preset, seed, changes, ep) for seed in range(1, seeds + 1)]
            reorder, ours, cv = (statistics.mean(column) for column in zip(*lines))
            print(f"  {name:<30} {reorder:+6.2f} {ours:+6.2f}   {cv:.3f}", flush=True)


def run(preset, seed, changes, ep):
    with tempfile.TemporaryDirectory() as folder:
        window, job, plan = (pathlib.Path(folder) / name for name in ("w.npz", "job.toml", "plan.json"))

        def routepack(*line):
            return subprocess.run(["routepack", *map(str, line)], check=True, capture_output=True, text=True).stdout

        sets = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
        routepack("generate", "window", "--preset", preset, "--seed", seed, *sets, "-o", window, "--job-output", job)
        if ep:
            lines = [f"ep = {ep}" if line.startswith("ep =") else line for line in job.read_text().splitlines()]
            job.write_text("\n".join(lines) + "\n")
        routepack("plan", window, "--job", job, "--placement", "aggregate", "-q", "-o", plan)
        machine = ("--model", MODELS[preset], "--cluster", "h20")
        arms = json.loads(routepack("simulate", plan, "--window", window, *machine, "--json"))["arms"]
        report = json.loads(routepack("report", plan, "--window", window, "--json"))["arms"]
        seconds = {arm["name"]: arm["seconds"] for arm in arms}
        return [gain(seconds["baseline"], seconds[arm]) for arm in ("reorder", "routepack")] + [report[0]["cv"]]


if __name__ == "__main__":
    if sys.argv[1:] == ["terms"]:
        terms()
    elif len(sys.argv) == 3 and sys.argv[1] == "runs" and sys.argv[2].isdigit():
        runs(int(sys.argv[2]))
    else:
        sys.exit(__doc__)
