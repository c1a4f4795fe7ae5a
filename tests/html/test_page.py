"""The page of a plan in a real browser: every figure is drawn, nothing is asked for, no error is logged.

    python3 tests/html/test_page.py

Takes the command from the target folder, and Chromium from the system. Where there is none, CI installs Debian's; elsewhere the
test says that it is skipped.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
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


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not COMMAND.is_file():
            raise unittest.SkipTest(f"{COMMAND} is not built: cargo build --release -p routepack-cli")
        cls.browser = browser()
        if cls.browser is None:
            raise unittest.SkipTest("no Chromium here: apt-get install chromium")
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.page = folder / "plan.html"
        plan, window = folder / "plan.json", WINDOWS / "single.npz"
        job = WINDOWS / "single.toml"
        for line in (["plan", window, "--job", job, "-o", plan], ["report", plan, "--window", window, "--html", cls.page]):
            subprocess.run([COMMAND, *line], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def open(self, *arguments):
        """What the browser prints and logs of the page."""
        command = [self.browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
        profile = tempfile.mkdtemp(dir=self.folder.name)
        command += [f"--user-data-dir={profile}", *arguments, self.page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)

    def test_every_figure_is_drawn_and_nothing_is_logged(self):
        opened = self.open("--dump-dom")
        logged = [line for line in opened.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(logged, [])
        figures = Figures()
        figures.feed(opened.stdout)
        written = re.findall(r'<figure id="([^"]+)"', self.page.read_text())
        self.assertEqual(list(figures.marks), written)
        self.assertGreaterEqual(len(written), 8)
        for name, marks in figures.marks.items():
            self.assertGreater(marks, 0, name)
        links = set(re.findall(r'href="#([^"]+)"', opened.stdout)) - {"pictures"}
        self.assertEqual(links, set(written))

    def test_dark_and_light_differ(self):
        shots = {}
        for scheme in (0, 1):
            shot = Path(self.folder.name) / f"{scheme}.png"
            self.open(f"--screenshot={shot}", "--window-size=900,1500", f"--blink-settings=preferredColorScheme={scheme}")
            shots[scheme] = shot.read_bytes()
            self.assertGreater(len(shots[scheme]), 10_000)
        self.assertNotEqual(shots[0], shots[1])


if __name__ == "__main__":
    unittest.main()
