"""The web page in a real Chromium, against a real broker: what a user sees, and may do, with mouse and keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import BasicQos
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from harness.standby_process import StandbyProcess
from harness.waiting import eventually
from tests.page.chromium import NoChromium, Tab, chromium, installed, program
from tests.page.pictures import pictures

FOUND = installed()
CACHE = ROOT / "build" / "chromium"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOUND is None, reason="no Chromium, and no npm to install one with"),
]

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
"""The name of a queue."""
BLANK = "blank "
LINE = 30
"""Pixels: a row with one line is lower."""
QUEUES = 120
TELEPHONE, DESK = 360, 1280
ROWS = "document.querySelectorAll('tbody tr').length"


class Site(NamedTuple):
    """A broker that has something of everything, and a browser."""

    broker: BrokerProcess
    tab: Tab
    url: str

    def open(self, page: str) -> None:
        """Show a page of the user who is logged in, with what it asks for."""
        self.tab.evaluate("document.querySelector('main > div')?.setAttribute('data-left', '')")
        self.tab.open(f"{self.url}/#/{page}")
        self.tab.await_true("!!document.querySelector('main > div:not([data-left]):not([aria-busy]) h1')")

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        """Log in, in place of whoever was."""
        self.tab.open(f"{self.url}/icon.svg")
        self.tab.evaluate("sessionStorage.clear(), localStorage.clear()")
        self.tab.open(f"{self.url}/")
        self.tab.write(user, "#user")
        self.tab.write(password, "#password")
        self.tab.press("Enter")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("page")
    broker = web_broker(directory, events="enabled = true\n")
    broker.start()
    for user, tags in (("reader", ["management"]), ("watcher", ["monitoring"])):
        broker.tell("add_user", name=user, password="p", tags=tags)
    broker.tell("set_permissions", user="reader", vhost="/", configure="^$", write="^$", read="^q")
    client = Client.connect(broker.address)
    for name in (EVIL, *(f"q{number:03}" for number in range(QUEUES))):
        client.ask(queue_declare(name, durable=True))
    client.ask(queue_declare("log", durable=True, arguments={"x-queue-type": "stream"}))
    client.ask(BasicQos(0, 5, False))
    client.ask(consume("q001", EVIL))
    assert FOUND is not None
    try:
        with chromium(*program(FOUND, CACHE), directory / "profile") as tab:
            tab.resize(DESK)
            yield Site(broker, tab, "http://{}:{}".format(*web_address(broker)))
    except NoChromium as error:
        pytest.skip(str(error))
    finally:
        client.close()
        broker.stop()


@pytest.fixture
def page(site: Site) -> Iterator[Site]:
    """An administrator who has logged in; no page may say that anything went wrong."""
    site.tab.resize(DESK)
    site.log_in()
    site.tab.await_text("Message rates")
    site.tab.errors.clear()
    yield site
    assert site.tab.errors == []


def pages(site: Site) -> list[str]:
    """Every page, of things that are there."""
    connection, evil = quote(site.broker.tell("list_connections")[0]["name"], safe=""), quote(EVIL, safe="")
    lists = "connections channels exchanges queues shovels commits alarms crash vhosts users permissions backups "
    lists += "permissions/topic policies policies/operator limits limits/users definitions tracing event-log rehearsal"
    single = f"connections/{connection} channels/{connection}%20(1) exchanges/%2F/amq.topic exchanges/%2F/amq.default "
    single += "vhosts/%2F users/guest"
    tabs = ("", "/messages", "/bindings", "/consumers")
    queues = [f"queues/%2F/{name}{tab}" for name in (evil, "log") for tab in tabs]
    return ["", *lists.split(), *single.split(), *queues]


def test_who_is_refused_stays_outside(site: Site) -> None:
    for user, password in (("guest", "wrong"), ("nobody", "p")):
        site.log_in(user, password)
        site.tab.await_text("Login failed")
        assert site.tab.evaluate("sessionStorage.length + document.querySelectorAll('nav').length") == 0
    site.log_in()
    site.tab.await_text("Message rates")
    site.tab.click("Log out")
    site.tab.await_true("!!document.querySelector('#password')")
    assert site.tab.evaluate("sessionStorage.length") == 0


def test_a_password_that_was_changed_leads_back_to_the_log_in(site: Site) -> None:
    site.broker.tell("add_user", name="leaver", password="p", tags=["monitoring"])
    site.log_in("leaver", "p")
    site.tab.await_text("Message rates")
    site.broker.tell("change_password", name="leaver", password="q")
    site.tab.errors.clear()
    site.tab.open(f"{site.url}/#/alarms")
    site.tab.await_text("log in again")
    assert len(site.tab.errors) == 1, "what is asked with a wrong password is asked once"


def test_every_page_fits_a_telephone_and_a_desk_in_light_and_dark(page: Site) -> None:
    tab = page.tab
    for scheme, width in (("light", DESK), ("dark", TELEPHONE)):
        tab.prefer(scheme)
        tab.resize(width)
        grounds = set()
        for name in pages(page):
            page.open(name)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            assert tab.evaluate("document.querySelectorAll('main .problem:not([hidden])').length") == 0, name
            grounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert grounds == {"rgb(246, 246, 243)" if scheme == "light" else "rgb(20, 23, 26)"}
    tab.resize(DESK)
    tab.choose("light", "label:has(option[value=dark]) select")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 246, 243)"


def test_every_page_of_the_menu_is_among_the_pictures(page: Site) -> None:
    """`python -m tests.page.pictures` takes them."""
    menu = page.tab.evaluate("[...document.querySelectorAll('nav.menu a')].map((it) => it.hash.slice(2))")
    assert len(menu) > 15
    assert set(menu) <= {picture.page for picture in pictures("connection")}


def test_a_queue_by_clicks(page: Site) -> None:
    tab = page.tab
    page.open("queues")
    tab.click("Add a queue…")
    tab.write("by clicks/1", "dialog [name=name]")
    tab.choose("quorum", "dialog [name=type]")
    tab.click("Add")
    tab.await_text("Queue declared.")
    page.open("queues/%2F/by%20clicks%2F1/messages")
    for _ in range(2):
        tab.write('{"order": 1}', "[name=payload]")
        tab.click("Publish")
        tab.await_text("Published and confirmed.")
    tab.write("1", "[name=count]")
    tab.click("Get messages")
    tab.await_text("1 to 1 of 2 ready")
    tab.click("Newer")
    tab.await_text("2 to 2 of 2 ready")
    tab.click("Older")
    tab.await_text("1 to 1 of 2 ready")
    tab.await_text('"order": 1')
    (looked_into,) = [each for each in page.broker.tell("list_queues") if each["name"] == "by clicks/1"]
    assert looked_into["messages_ready"] == 2
    tab.choose("unacknowledged", "[name=how]")
    tab.click("Get messages")
    tab.await_text("The queue has no unacknowledged message.")
    tab.choose("ack_requeue_true", "[name=how]")
    tab.click("Get messages")
    tab.await_text("redelivered")
    tab.await_true("!document.querySelector('.pager:not([hidden])')")
    tab.click("Move messages…")
    tab.write("q000", "dialog [name=target]")
    tab.write("1", "dialog [name=count]")
    tab.click("Move")
    tab.await_text("1 message moved to “q000”.")
    tab.click("Purge…")
    tab.click("Cancel")
    tab.click("Purge…")
    tab.click("Purge the queue")
    tab.await_text("Queue purged.")
    tab.click("Bindings")
    tab.write("amq.topic", "[name=other]")
    tab.write("a.#", "[name=key]")
    tab.click("Bind")
    tab.await_text("Binding added.")
    tab.click("Delete…")
    tab.click("Delete the queue")
    tab.await_true("location.hash === '#/queues'")
    counts = {queue["name"]: queue["messages"] for queue in page.broker.tell("list_queues")}
    assert (counts["q000"], "by clicks/1" in counts) == (1, False)


def test_a_stream_shows_the_lag_of_groups(page: Site) -> None:
    path = "/api/leveret/stream-offsets/%2F/billing"
    offsets = json.dumps({"offsets": {"log": 4}}).encode()
    assert ask(web_address(page.broker), path, method="PUT", body=offsets).status == 204
    page.open("queues/%2F/log")
    page.tab.await_text("Committed offset")
    page.tab.await_text("billing")


def test_a_refusal_is_shown_with_its_reason(page: Site) -> None:
    page.open("queues")
    page.tab.click("Add a queue…")
    page.tab.write("q001", "dialog [name=name]")
    page.tab.choose("stream", "dialog [name=type]")
    page.tab.click("Add")
    page.tab.await_text("inequivalent arg 'x-queue-type'")
    assert all("400" in error for error in page.tab.errors)
    page.tab.errors.clear()


def test_a_name_is_text_and_nothing_else(page: Site) -> None:
    page.open("queues?name=onerror")
    page.tab.await_text(EVIL)
    page.tab.click(EVIL)
    page.tab.await_true(f"document.querySelector('h1')?.textContent === {EVIL!r}")
    page.open("queues/%2F/q001/consumers")
    page.tab.await_text(EVIL)
    assert page.tab.evaluate("document.querySelectorAll('img[src=x], body script').length") == 0


def test_lists_page_sort_and_filter_at_the_broker(page: Site) -> None:
    tab = page.tab
    page.open("queues?size=50")
    tab.await_text(f"Page 1 of {(QUEUES + 2) // 50 + 1}")
    assert tab.evaluate(ROWS) == 50
    tab.click("Next")
    tab.await_text("Page 2 of")
    tab.click("Name")
    tab.await_true("document.querySelector('tbody a')?.innerText === 'q119'")
    tab.click("Name")
    tab.await_true(f"document.querySelector('tbody a')?.innerText === {EVIL!r}")
    tab.write("00", "input[type=search]")
    tab.await_text(f"11 of {QUEUES + 2} queues")
    assert "name=00" in tab.evaluate("location.hash")
    tab.write("^q01[2-4]", "input[type=search]")
    tab.click("Regular expression")
    tab.await_text(f"3 of {QUEUES + 2} queues")
    assert tab.evaluate("document.querySelector('[aria-sort]').innerText") == "Name"


def test_a_list_shows_what_is_chosen_and_remembers_it(page: Site) -> None:
    tab = page.tab
    heads = "[...document.querySelectorAll('thead th')].map((it) => it.innerText.trim()).join()"
    client = Client.connect(page.broker.address)
    client.ask(queue_declare(BLANK))
    client.publish(b"x", key=BLANK)
    client.ask(queue_declare(BLANK, passive=True))
    page.open("queues")
    assert tab.evaluate("document.querySelector('[aria-sort]').innerText") == "Name"
    tab.choose("unconsumed", "[aria-label=Show]")
    tab.await_text(f"2 of {QUEUES + 3} queues")
    assert tab.evaluate("document.querySelector('tbody .hidden-characters').dataset.marks") == "␣"
    assert tab.evaluate("document.querySelector('tbody a').textContent") == BLANK
    tab.choose("", "[aria-label=Show]")
    tab.await_true("document.querySelector('tfoot')?.innerText.includes('Total of')")
    assert "Acked,Redelivered" in tab.evaluate(heads)
    assert tab.evaluate("document.querySelector('tbody tr:last-child').offsetHeight") < LINE
    tab.click("Columns")
    tab.click("Bytes")
    tab.await_true(f"{heads}.includes('Bytes')")
    tab.resize(TELEPHONE)
    tab.choose("messages", "[aria-label='Sort by']")
    tab.await_true("document.querySelector('tbody a').innerText === 'q000'")
    tab.resize(DESK)
    page.open("exchanges")
    page.open("queues")
    assert "Total,Bytes,Consumers" in tab.evaluate(heads)
    assert tab.evaluate("document.querySelector('[aria-sort]').innerText") == "Total"
    client.close()
    page.broker.tell("delete_queue", name=BLANK, vhost="/")


def test_the_history_of_commits_is_there_at_the_first_visit(page: Site) -> None:
    page.open("commits")
    page.tab.await_true("document.querySelectorAll('.chart polyline').length >= 4")


def test_what_is_not_there_leads_back(page: Site) -> None:
    page.tab.open(f"{page.url}/#/queues/%2F/gone")
    page.tab.await_text("There is no “gone” in the virtual host “/”")
    page.tab.click("All queues")
    page.tab.await_text("Refreshed at")
    page.tab.click("Help")
    page.tab.await_text("Single active consumer")
    page.tab.press("Escape")
    assert all("404" in error for error in page.tab.errors)
    page.tab.errors.clear()


def test_a_shovel_by_clicks(page: Site) -> None:
    tab = page.tab
    page.open("shovels")
    tab.click("Add a shovel…")
    for name, value in (
        ("name", "away"),
        ("fromUri", "amqp://"),
        ("from", "q005"),
        ("toUri", "amqp://"),
        ("to", "q006"),
    ):
        tab.write(value, f"dialog [name={name}]")
    tab.click("Add")
    tab.await_text("running")
    tab.click("Restart")
    tab.click("Delete…")
    tab.click("Delete the shovel")
    tab.await_text("No shovels.")


def test_users_see_what_they_may_use(site: Site) -> None:
    tab = site.tab
    site.log_in("reader", "p")
    tab.await_text("Message rates")
    menu = tab.evaluate("[...document.querySelectorAll('nav.menu a')].map((it) => it.innerText)")
    assert "/".join(menu) == "Overview/Connections/Channels/Queues and streams/Exchanges/Virtual hosts/Policies"
    site.open("queues/%2F/q002/messages")
    tab.await_text("Browse messages")
    assert tab.evaluate(
        "[...document.querySelectorAll('main :not(.page-line) > button')].map((it) => it.innerText).join()"
    ) == ("Purge…,Get messages")
    site.open("users")
    tab.await_text("Not administrator user")
    site.log_in("watcher", "p")
    tab.await_text("Commits")
    site.open("alarms")
    tab.await_text("no alarm")


def test_the_keyboard_alone(page: Site) -> None:
    tab = page.tab
    focused = "document.activeElement.innerText.trim()"
    page.open("queues?name=q00&size=50")
    tab.await_text("q001")
    tab.evaluate("document.querySelector('.skip').focus()")
    tab.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "page"
    while tab.evaluate(focused) != "Add a queue…":
        tab.press("Tab")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("Enter")
    tab.await_true("!!document.querySelector('dialog[open]')")
    tab.press("Tab", 30)
    assert tab.evaluate("!!document.activeElement.closest('dialog') || document.activeElement === document.body")
    tab.press("Escape")
    tab.await_true("!document.querySelector('dialog')")
    while tab.evaluate(focused) != "q001":
        tab.press("Tab")
    tab.press("Enter")
    tab.await_true("location.hash === '#/queues/%2F/q001'")


def test_tracing_shows_what_is_published(page: Site) -> None:
    page.open("tracing")
    page.tab.click("Start")
    page.tab.await_text("Waiting for a message…")
    client = Client.connect(page.broker.address)
    client.publish(b"seen", key="q003")
    page.tab.await_true("document.querySelector('td.name')?.innerText === 'published'")
    page.tab.click("Show")
    page.tab.await_text("seen")
    client.close()


def test_definitions_come_down_as_a_file(page: Site, tmp_path: Path) -> None:
    page.tab.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.open("definitions")
    page.tab.click("Download")
    (file,) = eventually(lambda: list(tmp_path.glob("leveret-*.json")), "the file to be there as a whole")
    assert b"q001" in file.read_bytes()


def follows(standby: StandbyProcess) -> bool:
    try:
        return bool(standby.tell("status")["standby"]["stage"] == "following")
    except AdministrationError:  # there is no base yet
        return False


def test_a_standby_says_so_on_its_pages(site: Site, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    broker = web_broker(tmp_path, f'[ship]\nto = "{tmp_path / "away"}"\n')
    broker.start()
    standby = StandbyProcess(tmp_path / "standby", *broker.options)
    standby.http = broker.http
    try:
        standby.start()
        eventually(lambda: follows(standby), "the first base to be there")
        other = Site(standby, site.tab, "http://{}:{}".format(*web_address(standby)))
        other.log_in()
        other.tab.await_text("Nothing can be changed here: this is a standby that follows")
    finally:
        standby.discard()
        broker.discard()


def test_a_broker_that_takes_orders_of_tests_says_so_in_red(site: Site, tmp_path: Path) -> None:
    broker = web_broker(tmp_path, "[testing]\nenabled = true\n")
    broker.start()
    try:
        other = Site(broker, site.tab, "http://{}:{}".format(*web_address(broker)))
        other.log_in()
        other.tab.await_text("Testing is enabled ([testing] in the settings)")
        color = other.tab.evaluate("getComputedStyle(document.querySelector('.notice.lasting')).color")
        red, green, blue = map(int, re.findall("[0-9]+", color)[:3])
        assert red > 1.5 * max(green, blue)
    finally:
        broker.stop()
