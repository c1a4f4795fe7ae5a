"""The page of a plan in a real browser: every figure is drawn and fits, nothing is asked for, no error is logged, and the
numbers shown are the plan's.

    python3 tests/html/test_page.py

Takes the command from the target folder, and Chromium from the system. Where there is none, CI installs Debian's; elsewhere the
test says that it is skipped.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
COMMAND = TARGET / "release" / "routepack"
WINDOWS = ROOT / "instances" / "windows"


def browser():
    """Path of a Chromium, installed first where CI runs as root."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.environ.get("CI") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], check=False, **quiet)
        found = shutil.which("chromium")
    return found


class Figures(HTMLParser):
    """Identifiers of figures, and how many marks each draws."""

    def __init__(self):
        super().__init__()
        self.marks, self.figure = {}, None

    def handle_starttag(self, tag, attributes):
        if tag == "figure":
            self.figure = dict(attributes)["id"]
            self.marks[self.figure] = 0
        elif self.figure and tag in ("rect", "path", "circle"):
            self.marks[self.figure] += 1

    def handle_endtag(self, tag):
        if tag == "figure":
            self.figure = None


# Put around a page: what sticks out of a drawing, runs into another text, or widens the page, as JSON.
PROBE = """<!doctype html><meta charset=utf-8><title>wait</title><pre id=found></pre><iframe id=frame width=WIDTH height=900></iframe><script>
const frame = document.getElementById("frame"), wrong = [];
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement;
  if (root.scrollWidth > WIDTH) wrong.push(["page", root.scrollWidth]);
  for (const svg of page.querySelectorAll("svg.picture")) {
    const name = svg.closest("figure").id, view = svg.viewBox.baseVal;
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBBox()]);
    const size = svg.getBoundingClientRect().height / view.height * 12;
    if (size < 9) wrong.push([name, "letters", size]);
    texts.forEach(([text, box], index) => {
      if (box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height)
        wrong.push([name, "cut", text]);
      for (const [other, at] of texts.slice(index + 1))
        if (box.x < at.x + at.width && at.x < box.x + box.width && box.y + 3 < at.y + at.height && at.y + 3 < box.y + box.height)
          wrong.push([name, "overlap", text, other]);
    });
  }
  const tab = [...page.querySelectorAll("a, summary, [tabindex]")].filter(one => one.tabIndex === 0);
  const hidden = tab.filter(one => { one.focus(); return page.activeElement !== one && !one.closest("details:not([open])"); });
  if (hidden.length) wrong.push(["keyboard", hidden.length]);
  document.getElementById("found").textContent = JSON.stringify({
    wrong,
    drawings: page.querySelectorAll("svg.picture").length,
    tallest: Math.max(...[...page.querySelectorAll("svg.picture")].map(svg => svg.getBoundingClientRect().height)),
  });
};
frame.srcdoc = PAGE;
</script>"""


class Tables(HTMLParser):
    """Cells of the table of every figure; the one before all figures is that of the arms."""

    def __init__(self):
        super().__init__()
        self.tables, self.figure, self.cell = {"arms": []}, "arms", None

    def handle_starttag(self, tag, attributes):
        if tag == "figure":
            self.figure = dict(attributes)["id"]
            self.tables[self.figure] = []
        elif tag == "tr":
            self.tables[self.figure].append([])
        elif tag in ("th", "td"):
            self.cell = ""

    def handle_data(self, text):
        if self.cell is not None:
            self.cell += text

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self.tables[self.figure][-1].append(self.cell)
            self.cell = None


class Page(unittest.TestCase):
    # Windows of lengths alone: slots, ranks, samples.
    made = {"one": (1, 1, 1), "wide": (512, 8, 1024), "long": (2, 2, 1400)}

    @classmethod
    def setUpClass(cls):
        if not COMMAND.is_file():
            raise unittest.SkipTest(f"{COMMAND} is not built: cargo build --release -p routepack-cli")
        cls.browser = browser()
        if cls.browser is None:
            raise unittest.SkipTest("no Chromium here: apt-get install chromium")
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.page, cls.pages = folder / "plan.html", {}
        plan, window, job = folder / "plan.json", folder / "w.npz", folder / "job.toml"
        trace, moves, rows = (folder / name for name in ("trace.csv", "moves.csv", "rows.csv"))

        def routepack(*line):
            subprocess.run([COMMAND, *line], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        # A pipeline whose rows the step time decides, with all that a page can show.
        routepack("generate", "window", "--preset", "mixed", "--set", "prompts=16", "-o", window, "--job-output", job)
        text = re.sub(r"(?m)^rows = .*", "rows = { extra_rows = 3 }", job.read_text())
        for size, value in (("dp", 8), ("ep", 4), ("pp", 4)):
            text = re.sub(rf"(?m)^{size} = .*", f"{size} = {value}", text)
        job.write_text(text + '\n[machine]\nmodel = "mixed-half-qwen3"\ncluster = "h20"\n')
        routepack("plan", window, "--job", job, "-o", plan, "--trace", trace)
        routepack("place", window, "--ep", "4", "--top-k", "8", "--curve", moves)
        machine = ("--model", "mixed-half-qwen3", "--cluster", "h20")
        routepack("simulate", plan, "--window", window, *machine, "--extra-rows", "2", "--rows-curve", rows)
        beside = ("--trace", trace, "--curve", moves, "--rows-curve", rows)
        routepack("report", plan, "--window", window, "--html", cls.page, *beside)
        cls.plan = json.loads(plan.read_text())
        cls.pages["pipeline"] = cls.page
        # The other extreme: a window of one shard, as shipped; and one sample without routes.
        for name, window, job in (
            ("single", WINDOWS / "single.npz", WINDOWS / "single.toml"),
            ("one", folder / "one.json", folder / "one.toml"),
            # More slots, and more rows, than a screen holds.
            ("wide", folder / "wide.json", folder / "wide.toml"),
            ("long", folder / "long.json", folder / "long.toml"),
        ):
            if name in cls.made:
                slots, ranks, samples = cls.made[name]
                window.write_text(json.dumps({"lengths": [7 + 31 * sample % 6 for sample in range(samples)]}))
                job.write_text(f"[topology]\ndp = {slots}\nep = {ranks}\n[packing]\ncapacity = 12\n")
            cls.pages[name] = folder / f"{name}.html"
            routepack("plan", window, "--job", job, "-o", plan)
            routepack("report", plan, "--window", window, "--html", cls.pages[name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def open(self, page, *arguments):
        """What the browser prints and logs of a page."""
        command = [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
        profile = tempfile.mkdtemp(dir=self.folder.name)
        command += [f"--user-data-dir={profile}", *arguments, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)

    def test_every_figure_is_drawn_and_nothing_is_logged(self):
        for name, least in (("pipeline", 14), ("single", 8), ("one", 5), ("wide", 5), ("long", 5)):
            page = self.pages[name]
            opened = self.open(page, "--dump-dom")
            logged = [line for line in opened.stderr.splitlines() if "CONSOLE" in line]
            self.assertEqual(logged, [], name)
            figures = Figures()
            figures.feed(opened.stdout)
            written = re.findall(r'<figure id="([^"]+)"', page.read_text())
            self.assertEqual(list(figures.marks), written)
            self.assertGreaterEqual(len(written), least, name)
            self.assertLess(max(figures.marks.values()), 1 << 16, name)
            for figure, marks in figures.marks.items():
                self.assertGreater(marks, 0, figure)
            links = set(re.findall(r'href="#([^"]+)"', opened.stdout)) - {"pictures"}
            self.assertEqual(links, set(written))
        beside = {"annealing-energy", "annealing-temperature", "annealing-families", "trade-off", "rows-curve"}
        figures = set(re.findall(r'<figure id="([^"]+)"', self.page.read_text()))
        self.assertLessEqual(beside | {"step-0-rows-tried"}, figures)

    def test_nothing_is_cut_or_written_over_in_any_width(self):
        for name, page in self.pages.items():
            for width in (1000, 400):
                probe = page.with_suffix(f".{width}.html")
                text = json.dumps(page.read_text()).replace("</", "<\\/")
                probe.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", text))
                opened = self.open(probe, "--dump-dom", "--virtual-time-budget=20000").stdout
                found = json.loads(unescape(re.search(r'<pre id="found">(.*?)</pre>', opened, re.S)[1]))
                self.assertEqual(found["wrong"], [], f"{name}, {width} pixels")
                self.assertEqual(found["drawings"], page.read_text().count("<figure"))
                self.assertLess(found["tallest"], 1500, f"{name}: a drawing that no screen holds")

    def test_numbers_are_the_plans(self):
        tables = Tables()
        tables.feed(self.open(self.page, "--dump-dom").stdout)
        step = self.plan["steps"][0]
        unit = self.plan["setting"]["packing"]["capacity"] << self.plan["scale_bits"]
        bounds = [step["bounds"][kind]["worst_shard"] for kind in ("given_placement", "placement_free")]
        costs = [f"{cost / unit:.4f}" for cost in step["shard_cost"] + bounds]
        self.assertEqual([row[3] for row in tables.tables["step-0-shards"][1:]], costs)
        fill = [[int(cell) for cell in row[1:]] for row in tables.tables["step-0-fill"][1:]]
        self.assertEqual(fill, step["tokens"]["padded"])
        tried = [(int(row[0]), float(row[1])) for row in tables.tables["step-0-rows-tried"][1:]]
        self.assertEqual(tried, [(tried["rows"], tried["seconds"]) for tried in step["rows_tried"]])
        arms = {row[0]: row[1] for row in tables.tables["arms"]}
        self.assertEqual(arms["figure"], "routepack", "beside the figures' names, in view on any screen")
        simulated = [row for row in tables.tables["arms"] if row[0] == "tokens/s, simulated"][0]
        against = [row for row in tables.tables["arms"] if row[0] == "tokens/s against baseline, %"][0]
        used = next(tried["seconds"] for tried in step["rows_tried"] if tried["rows"] == step["rows"])
        self.assertEqual(float(simulated[1]), round(step["totals"]["raw"] / used))
        gain = 100 * (float(simulated[1]) / float(simulated[2]) - 1)
        self.assertAlmostEqual(float(against[1]), gain, delta=0.02)
        self.assertEqual(arms["joint score"], costs[step["shard_cost"].index(max(step["shard_cost"]))])
        self.assertEqual(arms["rows"], str(step["rows"]))
        moved = sum(int(cell) for row in tables.tables["moves"][1:] for cell in row[1:])
        ranks, placed = self.plan["placement"]["num_ranks"], self.plan["placement"]["log2phys"]
        each = len(placed[0]) // ranks
        left = sum(slot // each != expert // each for layer in placed for expert, slot in enumerate(layer))
        self.assertEqual(moved, left)

    def test_dark_and_light_differ(self):
        shots = {}
        for scheme in (0, 1):
            shot = Path(self.folder.name) / f"{scheme}.png"
            self.open(self.page, f"--screenshot={shot}", "--window-size=900,1500", f"--blink-settings=preferredColorScheme={scheme}")
            shots[scheme] = shot.read_bytes()
            self.assertGreater(len(shots[scheme]), 10_000)
        self.assertNotEqual(shots[0], shots[1])


if __name__ == "__main__":
    unittest.main()
