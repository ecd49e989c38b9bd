"""A headless Chromium, driven by its DevTools protocol over a pipe: messages of JSON, each ended by a zero byte.

What a user does is done as the browser has it from a mouse and a keyboard; what is shown is asked for by a script.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 20.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27}
TYPED = {"Enter": {"text": "\r"}}
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # tests run as root, where Chromium has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "about:blank",
)


def installed() -> str | None:
    """The Chromium of this machine, or that of LEVERET_CHROMIUM; None where there is none."""
    found = (shutil.which(name) for name in (os.environ.get("LEVERET_CHROMIUM", ""), *NAMES) if name)
    return next((path for path in found if path), None)


@contextmanager
def chromium(program: str, profile: Path) -> Iterator[Tab]:
    """A browser with one tab, until the end of the block."""
    to_read, ours_to_write = os.pipe()
    ours_to_read, to_write = os.pipe()
    pipes = ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh"]  # the protocol has these two numbers
    command = [*pipes, program, *OPTIONS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(to_read)
    os.close(to_write)
    try:
        yield Tab(ours_to_read, ours_to_write)
    finally:
        process.terminate()
        process.wait(SECONDS)
        os.close(ours_to_read)
        os.close(ours_to_write)


class Tab:
    """The one tab. `errors` has what went wrong on the pages, for a test to look at and clear."""

    def __init__(self, reads: int, writes: int) -> None:
        self.errors: list[str] = []
        self._reads, self._writes = reads, writes
        self._last = 0
        self._heard = b""
        self._session = ""
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.command("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    # The protocol

    def command(self, method: str, **parameters: Any) -> Any:
        """Have the browser do something; its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next()
            if heard.get("id") == self._last:
                assert "error" not in heard, f"{method}: {heard['error']}"
                return heard["result"]
            self._note(heard)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            ready, _, _ = select.select([self._reads], [], [], SECONDS)
            assert ready, f"Chromium has said nothing for {SECONDS:g} s"
            data = os.read(self._reads, 1 << 20)
            assert data, "Chromium has ended"
            self._heard += data
        message, _, self._heard = self._heard.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(str(parameters["args"]))
        elif event.get("method") == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog: {parameters['message']}")

    # What is shown

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, what it resolves to."""
        answer = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def await_true(self, script: str) -> Any:
        """Look again and again until an expression is true, and give its value."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.evaluate(script)):
            assert time.monotonic() < deadline, (
                f"not within {SECONDS:g} s: {script}\n{self.text()[:2000]}\n{self.errors}"
            )
            time.sleep(0.02)
        return value

    def await_text(self, text: str) -> None:
        """Return when the page shows a text."""
        self.await_true(f"document.body.innerText.includes({_js(text)})")

    def text(self) -> str:
        """All that is shown."""
        return str(self.evaluate("document.body.innerText"))

    # What a user does

    def open(self, url: str) -> None:
        """Go to an address; one that differs behind the # alone is gone to within the page."""
        self.command("Page.navigate", url=url)
        self.await_true("document.readyState === 'complete'")

    def click(self, text: str) -> None:
        """Click on the button, link or label with this text: the last one, which is a dialog's where there is one."""
        named = (
            f"[...document.querySelectorAll('button, a, label')].filter((it) => it.innerText.trim() === {_js(text)})"
        )
        self._click_on(named)

    def click_at(self, selector: str) -> None:
        """Click on what a selector finds, the last of it."""
        self._click_on(f"[...document.querySelectorAll({_js(selector)})]")

    def _click_on(self, elements: str) -> None:
        script = f"""(() => {{
            const it = {elements}.filter((it) => it.checkVisibility() && !it.disabled).at(-1);
            it?.scrollIntoView({{block: 'center'}});
            const box = it?.getBoundingClientRect();
            return box && {{x: box.x + box.width / 2, y: box.y + box.height / 2}};
        }})()"""
        place = self.await_true(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, **place, button="left", clickCount=1)

    def write(self, text: str, into: str) -> None:
        """Type a text into the field that a selector finds, the last one, in place of what is in it."""
        field = f"[...document.querySelectorAll({_js(into)})].at(-1)"
        self.await_true(f"!!{field}")
        self.evaluate(f"{field}.focus(), {field}.select()")
        self.command("Input.insertText", text=text)

    def choose(self, value: str, selector: str) -> None:
        """Choose an option of a list."""
        field = f"[...document.querySelectorAll({_js(selector)})].at(-1)"
        self.await_true(f"!!{field}")
        self.evaluate(f"{field}.value = {_js(value)}, {field}.dispatchEvent(new Event('change', {{bubbles: true}}))")

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.command("Input.insertText", text=text)

    def press(self, key: str, times: int = 1) -> None:
        """Press a key by its name."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        for _ in range(times):
            self.command("Input.dispatchKeyEvent", type="keyDown", **common, **TYPED.get(key, {}))
            self.command("Input.dispatchKeyEvent", type="keyUp", **common)

    # How it looks

    def resize(self, width: int, height: int = 900) -> None:
        """Have a window, or a telephone, of this size in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme: str) -> None:
        """Have the system be `light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"])


def _js(text: str) -> str:
    """A text as JavaScript has it."""
    return json.dumps(text)
