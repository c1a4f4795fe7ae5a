"""The comparison of layouts as this crate's README has it: makes the windows, runs the bench, prints the README's table.

    python3 crates/routepack-bench/layouts.py OUTPUT.csv [ROUTES.npz LENGTHS.tsv] [-- OPTIONS OF THE BENCH]

ROUTES.npz: recorded routes of three layers of OLMoE, `routed_experts` [tokens, 3, 8]; LENGTHS.tsv: rollouts with the columns
prompt_tokens and response_tokens. Without them the window cut from them is left out. Needs `routepack` on the path.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

WINDOWS = pathlib.Path(__file__).resolve().parents[2] / "instances" / "windows"
SHIPPED = ("tiny", "mixed", "knife-edge-1")
# Sizes of the published config.json of OLMoE-1B-7B, cut to the recorded layers.
OLMOE = {"model_type": "olmoe", "hidden_size": 2048, "vocab_size": 50304, "num_hidden_layers": 3, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8}
CUT_JOB = """[topology]
dp = 8
ep = 8
[routing]
top_k = 8
[packing]
capacity = 2048
[cost.shape]
hidden = 2048
heads = 16
qk_dim = 128
expert_width = 1024
[[cost.shape.attention]]
name = "full"
layers = 3
quadratic = true
"""


def routepack(*line, folder=None):
    subprocess.run(["routepack", *map(str, line)], check=True, cwd=folder)


def bench(output, recorded, options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flash = folder / "flash.npz"
        routepack("generate", "window", "--preset", "flash", "--seed", 1, "-o", flash)
        flash.with_suffix(".toml").write_bytes((WINDOWS / "flash.toml").read_bytes())
        windows = [WINDOWS / "tiny.npz", flash, *(WINDOWS / f"{name}.npz" for name in SHIPPED[1:])]
        for shipped in ("tiny", "mixed"):
            # The same window in a pipeline of four stages, where the order of rows counts.
            deep = folder / f"{shipped}-pp4.npz"
            deep.write_bytes((WINDOWS / f"{shipped}.npz").read_bytes())
            job = (WINDOWS / f"{shipped}.toml").read_text()
            assert "\npp = 1\n" in job, shipped
            deep.with_suffix(".toml").write_text(job.replace("\npp = 1\n", "\npp = 4\n"))
            windows.append(deep)
        models = ["ling-3.0-tiny-like", "ling-3.0-flash-like", "mixed-half-qwen3"]
        if recorded:
            cut, model = folder / "cut-gsm8k.npz", folder / "olmoe3.json"
            lengths = ("--lengths", recorded[1], "--column", "prompt_tokens+response_tokens", "--samples", 384)
            routepack("generate", "cut", "--routes", recorded[0], "--experts", 64, *lengths, "-o", cut)
            cut.with_suffix(".toml").write_text(CUT_JOB)
            model.write_text(json.dumps(OLMOE))
            windows.append(cut)
            models.append(model.name)
        models = [part for model in models for part in ("--model", model)]
        written = ("-o", output, "--plot", output.with_suffix(".svg"))
        # From there, for the table names a model by its path.
        routepack("bench", "layouts", *windows, "--cluster", "h20", *models, *written, *options, folder=folder)


def table(output):
    with output.open(newline="") as lines:
        lines = list(csv.DictReader(lines))
    windows = list(dict.fromkeys(line["window"] for line in lines))
    arms = list(dict.fromkeys(line["arm"] for line in lines))
    print("| arm | " + " | ".join(windows) + " |\n|" + "---|" * (1 + len(windows)))
    for arm in arms:
        cells = []
        for window in windows:
            line = next(line for line in lines if (line["window"], line["arm"]) == (window, arm))
            cell = f"{line['rows']} rows, {float(line['joint_score']):.3f}" if line["joint_score"] else "none"
            cell += f", {float(line['step_seconds']):.3f} s" if line["step_seconds"] else ""
            cell += f" ({line['cells_over_cap']} over)" if line["cells_over_cap"] not in ("", "0") else ""
            cells.append(cell)
        print(f"| {arm} | " + " | ".join(cells) + " |")
    planning = [float(line["planning_seconds"]) for line in lines if not line["arm"].startswith("routepack")]
    for arm in ("routepack", "routepack+"):
        own = [f"{float(line['planning_seconds']):.2f}" for line in lines if line["arm"] == arm]
        print(f"\nplanning, {arm}: {', '.join(own)} s", end="")
    print(f"; every rule {min(planning):.5f} to {max(planning):.3f} s")


if __name__ == "__main__":
    arguments, _, options = "\n".join(sys.argv[1:]).partition("\n--\n")
    arguments, options = arguments.split("\n"), options.split("\n") if options else []
    if len(arguments) not in (1, 3) or not arguments[0]:
        sys.exit(__doc__)
    output, *recorded = (pathlib.Path(name).resolve() for name in arguments)
    bench(output, recorded, options)
    table(output)
