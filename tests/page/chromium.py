"""A headless Chromium, driven by its DevTools protocol over a pipe: JSON messages, each ended by a zero byte.

Input comes as from a mouse and a keyboard; expressions ask for the state of the page.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 30.0
INSTALL_SECONDS = 120
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
PACKAGE = "@sparticuz/chromium@147.0.0"
"""A package of npm that has the program itself, and the libraries that a small system lacks."""
UNPACK = """const zlib = require("zlib"), fs = require("fs");
for (const name of process.argv.slice(1))
    fs.writeFileSync(name.slice(0, -3), zlib.brotliDecompressSync(fs.readFileSync(name)));"""
NUMBERED = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""Give the ends of the pipes the numbers that the protocol has for them."""
ABOVE = 10
STANDS_MILLISECONDS = 40
"""Milliseconds for which an element has stayed where it is before it is clicked."""
SEEN = "it.checkVisibility({visibilityProperty: true})"
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}
# Tests may run as root, where Chromium has no sandbox.
OPTIONS = "--headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars"


def installed() -> str | None:
    """The Chromium of LEVERET_CHROMIUM or of this machine, or npm to install one with; None for neither."""
    names = (os.environ.get("LEVERET_CHROMIUM", "none"), *NAMES, "npm")
    return next(filter(None, map(shutil.which, names)), None)


def program(found: str, cache: Path) -> tuple[str, dict[str, str]]:
    """The Chromium that is run, and its environment: the one that was found, or npm's, installed once into a cache.

    Raises NoChromium when npm has none.
    """
    if not found.endswith("npm"):
        return found, dict(os.environ)
    try:
        return _of_npm(cache)
    except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
        raise NoChromium(f"npm could not install {PACKAGE}: {error}") from error


def _of_npm(cache: Path) -> tuple[str, dict[str, str]]:
    files = cache / "node_modules/@sparticuz/chromium/bin"
    if not (files / "lib").exists():
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", str(cache)]
        command = ["npm", "install", *options, PACKAGE]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
        packed = [str(files / name) for name in ("chromium.br", "al2023.tar.br")]
        subprocess.run(["node", "-e", UNPACK, *packed], check=True, timeout=INSTALL_SECONDS)
        (files / "chromium").chmod(0o755)
        with tarfile.open(files / "al2023.tar") as libraries:
            libraries.extractall(files, filter="data")
    return str(files / "chromium"), {**os.environ, "LD_LIBRARY_PATH": str(files / "lib")}


class NoChromium(Exception):
    """None is here that starts, and none can be installed; the message says why."""


@contextmanager
def chromium(path: str, environment: dict[str, str], profile: Path) -> Iterator[Tab]:
    """A browser with one tab, until the end of the block. Raises NoChromium when it does not start."""
    (low_read, ours_to_write), (ours_to_read, low_write) = os.pipe(), os.pipe()
    to_read, to_write = (fcntl.fcntl(end, fcntl.F_DUPFD, ABOVE) for end in (low_read, low_write))
    command = [path, *OPTIONS.split(), f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", NUMBERED, str(to_read), str(to_write), *command],
        env=environment,
        pass_fds=(to_read, to_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (low_read, low_write, to_read, to_write):
        os.close(end)
    try:
        try:
            tab = Tab(ours_to_read, ours_to_write)
        except (OSError, AssertionError) as error:
            raise NoChromium(f"{path} does not start: {error}") from error
        yield tab
    finally:
        process.terminate()
        process.wait(SECONDS)
        os.close(ours_to_read)
        os.close(ours_to_write)


class Tab:
    """The one tab. `errors` has what went wrong on pages, for a test to look at and clear."""

    def __init__(self, reads: int, writes: int) -> None:
        self.errors: list[str] = []
        self._reads, self._writes = reads, writes
        self._heard = b""
        self._last = 0
        self._session: dict[str, str] = {}
        page = next(each for each in self.command("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.command("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def command(self, method: str, **parameters: Any) -> Any:
        """Have the browser do something; its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters, **self._session}
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while (heard := self._next()).get("id") != self._last:
            self._note(heard.get("method", ""), heard.get("params", {}))
        assert "error" not in heard, f"{method}: {heard['error']}"
        return heard["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._reads], [], [], SECONDS)
            data = os.read(self._reads, 1 << 20) if ready else b""
            assert data, f"Chromium has ended, or said nothing for {SECONDS:g} s"
            self._heard += data
        message, _, self._heard = self._heard.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        if event in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.errors.append(f"{event}: {parameters}")
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    # What is shown

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise, what it comes to."""
        answer = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def await_true(self, expression: str) -> Any:
        """Look again and again until an expression is true, and give its value."""
        deadline = time.monotonic() + SECONDS
        while not (value := self._look(expression)):
            shown = "" if time.monotonic() < deadline else self.evaluate("document.body.innerText")
            assert not shown, f"not within {SECONDS:g} s: {expression}\n{shown[:2000]}\n{self.errors}"
            time.sleep(0.02)
        return value

    def _look(self, expression: str) -> Any:
        """The value of an expression; None where the page was left before it was there."""
        try:
            return self.evaluate(expression)
        except AssertionError as error:
            if "Inspected target navigated" not in str(error):
                raise
            return None

    def await_text(self, text: str) -> None:
        """Return when the page shows a text."""
        self.await_true(f"document.body.innerText.includes({json.dumps(text)})")

    # What a user does

    def resize(self, width: int, height: int = 900) -> None:
        """Have a window, or a telephone, of this size in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """Have the system be `light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Go to an address; one that differs behind the # alone is gone to within the page."""
        self.command("Page.navigate", url=url)
        self.await_true("document.readyState === 'complete'")

    def click(self, text: str) -> None:
        """Click on the button, link or label with this text: the last one, which is a dialog's where there is one."""
        place = self.await_true(f"""new Promise((found) => {{
            const named = (it) => it.innerText.trim() === {json.dumps(text)} && {SEEN} && !it.disabled;
            const look = () => {{
                const it = [...document.querySelectorAll("button, a, label, summary")].filter(named).at(-1);
                it?.scrollIntoView({{block: "center"}});
                const box = it?.getClientRects()[0]; // of a link in two lines the first
                return box && {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
            }};
            const stands = (before, now) => now && before?.x === now.x && before.y === now.y && now;
            const before = look();
            setTimeout(() => found(stands(before, look())), {STANDS_MILLISECONDS});
        }})""")
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def write(self, text: str, into: str) -> None:
        """Type a text into the field that a selector finds, the last one, in place of what is in it."""
        field = f"[...document.querySelectorAll({json.dumps(into)})].filter((it) => {SEEN}).at(-1)"
        self.await_true(f"{field} && ({field}.focus(), {field}.select(), true)")
        self.command("Input.insertText", text=text)

    def choose(self, value: str, selector: str) -> None:
        """Choose an option of the list that a selector finds."""
        field = f"[...document.querySelectorAll({json.dumps(selector)})].filter((it) => {SEEN}).at(-1)"
        change = f"{field}.dispatchEvent(new Event('change', {{bubbles: true}}))"
        self.await_true(f"{field} && ({field}.value = {json.dumps(value)}, {change})")

    def press(self, key: str, times: int = 1) -> None:
        """Press a key by its name."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        for _ in range(times):
            self.command(
                "Input.dispatchKeyEvent", type="keyDown", **event, **({"text": "\r"} if key == "Enter" else {})
            )
            self.command("Input.dispatchKeyEvent", type="keyUp", **event)
