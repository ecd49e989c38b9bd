"""Take the pictures of the web page in docs/screenshots again, light and dark: `python -m tests.page.pictures`.

A broker with clients runs for some minutes first, so that charts have a history. Needs a Chromium, or npm to install
one with. The reports in docs/screenshots/report are of another program.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.project import ROOT
from tests.page.chromium import Tab, chromium, installed, program
from tests.page.shown_shop import SHOP, shop

FOLDER = ROOT / "docs" / "screenshots"
CACHE = ROOT / "build" / "chromium"
MINUTES = 11.0
"""Minutes of the shortest chart, and one."""
DESK, TELEPHONE = (1280, 760), (360, 760)
"""Widths, and lowest heights, in CSS pixels."""
HIGHEST = {DESK: 1640, TELEPHONE: 1500}
WIDTH = 1000
"""Pixels of a picture of a desk."""
COLOURS = 256
LOGIN = "start/login"
SCHEMES = ("light", "dark")
ORDERS = f"queues/{SHOP}/orders.eu"


class Picture(NamedTuple):
    """A picture: its file, the page, a text to wait for, steps in the page, the size of the window."""

    name: str
    page: str
    text: str
    steps: Callable[[Tab], None] = lambda tab: None
    size: tuple[int, int] = DESK


def _look(tab: Tab) -> None:
    tab.click("Get messages")
    tab.await_text("ready")


def _back_up(tab: Tab) -> None:
    tab.click("Back up now")
    tab.await_text("leveret-")


def _trace(tab: Tab) -> None:
    tab.choose(SHOP, "main select")
    tab.click("Start")
    tab.await_true("document.querySelectorAll('main tbody tr').length > 12")


def _stop_trace(tab: Tab) -> None:
    tab.click("Stop")


def pictures(connection: str) -> list[Picture]:
    """Return all pictures; those of a connection and a channel are of the one with this name, quoted."""
    return [
        Picture("start/overview", "", "Message rates"),
        Picture("start/connections", "connections", "webshop"),
        Picture("start/connection", f"connections/{connection}", "Channels"),
        Picture("start/channels", "channels", "Prefetch"),
        Picture("start/channel", f"channels/{connection}%20(1)", "Message rates"),
        Picture("messages/queues", "queues", "orders.us"),
        Picture("messages/queue", ORDERS, "Message rates"),
        Picture("messages/messages", f"queues/{SHOP}/orders.asia/messages", "Browse messages", _look),
        Picture("messages/bindings", f"{ORDERS}/bindings", "eu.#"),
        Picture("messages/consumers", f"{ORDERS}/consumers", "acknowledges"),
        Picture("messages/exchanges", "exchanges", "reminders"),
        Picture("messages/exchange", f"exchanges/{SHOP}/orders", "Bindings"),
        Picture("messages/shovels", "shovels", "running"),
        Picture("durability/commits", "commits", "Commits"),
        Picture("durability/alarms", "alarms", "no alarm"),
        Picture("durability/crash", "crash", "Crash preview"),
        Picture("administration/vhosts", "vhosts", SHOP),
        Picture("administration/vhost", f"vhosts/{SHOP}", "Users with permissions"),
        Picture("administration/users", "users", "watcher"),
        Picture("administration/user", "users/webshop", "Permissions"),
        Picture("administration/permissions", "permissions", "billing"),
        Picture("administration/policies", "policies", "dead-letters"),
        Picture("administration/limits", "limits", "Connections: 100"),
        Picture("administration/backups", "backups", "Back up now", _back_up),
        Picture("tools/definitions", "definitions", "Definitions"),
        Picture("tools/event-log", "event-log", "Event log"),
        Picture("tools/add-queue", "queues", "orders.us", lambda tab: tab.click("Add a queue…")),
        Picture("tools/purge", ORDERS, "Message rates", lambda tab: tab.click("Purge…")),
        Picture("tools/tracing", "tracing", "Trace", _trace),
        Picture("tools/rehearsal", "rehearsal", "Rehearsal"),
        Picture("telephone/overview", "", "Message rates", size=TELEPHONE),
        Picture("telephone/queues", "queues", "orders.us", size=TELEPHONE),
        Picture("telephone/queue", ORDERS, "Message rates", size=TELEPHONE),
        Picture("telephone/commits", "commits", "Commits", size=TELEPHONE),
        Picture("telephone/menu", "alarms", "no alarm", _menu, TELEPHONE),
    ]


def _menu(tab: Tab) -> None:
    tab.evaluate("document.querySelector('.menu-button').click()")


def main() -> None:
    """Run the broker, and take all pictures, or those whose names begin with one that is given."""
    parser = argparse.ArgumentParser(prog="python -m tests.page.pictures", description=__doc__)
    parser.add_argument("names", nargs="*", help="start, messages/queue and so on; all by default")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for which the broker runs before")
    options = parser.parse_args()
    found = installed()
    if found is None:
        parser.error("there is no Chromium, and no npm to install one with")
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch, shop(Path(scratch)) as broker:
        threading.Event().wait(options.minutes * 60)
        with chromium(*program(found, CACHE), Path(scratch, "profile")) as tab:
            take_all(tab, broker, tuple(options.names) or ("",))


def take_all(tab: Tab, broker: BrokerProcess, beginnings: tuple[str, ...]) -> None:
    """Take the pictures whose names begin so, each light and dark."""
    url = "http://{}:{}".format(*web_address(broker))
    for scheme in SCHEMES:
        tab.prefer(scheme)
        tab.resize(*DESK)
        tab.open(f"{url}/icon.svg")
        tab.evaluate("sessionStorage.clear(), localStorage.clear()")
        tab.open(f"{url}/")
        tab.await_true("!!document.querySelector('#password')")
        if LOGIN.startswith(beginnings):
            take(tab, f"{LOGIN}-{scheme}", DESK)
        tab.write("guest", "#user")
        tab.write("guest", "#password")
        tab.press("Enter")
        tab.await_text("Message rates")
        for picture in pictures(_publisher(broker)):
            if picture.name.startswith(beginnings):
                print(f"{picture.name}-{scheme}", flush=True)
                _show(tab, f"{url}/#/{picture.page}", picture)
                take(tab, f"{picture.name}-{scheme}", picture.size)
                if picture.steps is _trace:
                    _stop_trace(tab)


def _publisher(broker: BrokerProcess) -> str:
    """Return the name of the shop's publishing connection, quoted."""
    connections = json.loads(ask(web_address(broker), "/api/connections").body)
    (name,) = [each["name"] for each in connections if each.get("user_provided_name") == "webshop"]
    return quote(name, safe="")


def _show(tab: Tab, address: str, picture: Picture) -> None:
    tab.resize(*picture.size)
    tab.evaluate("document.querySelector('main > div')?.setAttribute('data-left', '')")
    tab.open("about:blank")
    tab.open(address)
    tab.await_true("!!document.querySelector('main > div:not([data-left]):not([aria-busy]) h1')")
    tab.await_text(picture.text)
    picture.steps(tab)


def take(tab: Tab, name: str, size: tuple[int, int]) -> None:
    """Write a picture of the whole page, at least as high as `size` and at most as high as pictures are."""
    width, lowest = size
    height = tab.evaluate("document.documentElement.scrollHeight")
    height = min(HIGHEST[size], max(lowest, height))
    tab.resize(width, height)
    tab.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    tab.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": min(1, WIDTH / width)}
    shot = base64.b64decode(tab.command("Page.captureScreenshot", format="png", clip=clip)["data"])
    file = FOLDER / f"{name}.png"
    file.parent.mkdir(exist_ok=True)
    with Image.open(io.BytesIO(shot)) as image:
        image.convert("RGB").quantize(COLOURS).save(file, optimize=True)


if __name__ == "__main__":
    main()
