"""A day passes at once, confirms fail, acks are lost, the broker dies: each mail is sent, and once."""

import threading

import pytest
from mailer import DAY, FAILED, HOUR, MINUTE, Mailer, opened, put


class Server:
    """A mail server that can be out of order."""

    def __init__(self) -> None:
        self.works = True
        self.got: list[bytes] = []

    def send(self, mail: bytes) -> None:
        """Take a mail."""
        if not self.works:
            raise ConnectionRefusedError
        self.got.append(mail)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def channel(leveret):
    return opened(leveret.url)


@pytest.fixture
def backlog(leveret):
    """A hundred mails that wait: published once, restored for each test that wants them."""
    if "backlog" not in leveret.snapshots():
        channel = opened(leveret.url)
        for number in range(100):
            put(channel, "mail", b"%d" % number, str(number))
        leveret.save_snapshot("backlog")
    leveret.restore_snapshot("backlog")


@pytest.fixture
def worker(leveret, server):
    """The worker, in a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=Mailer(leveret.url, server.send, stop).run)
    thread.start()
    leveret.expect(queue="mail", consumers=1)
    yield
    stop.set()
    thread.join()


def test_a_mail_is_sent(leveret, channel, server, worker):
    put(channel, "mail", b"hello", "1")
    leveret.expect("acked", queue="mail")
    assert server.got == [b"hello"]


def test_what_fails_is_tried_again_after_a_minute_an_hour_and_a_day(leveret, channel, server, worker):
    server.works = False
    leveret.clock.stop()
    put(channel, "mail", b"hello", "1")
    for seconds in (MINUTE, HOUR, DAY):
        leveret.wait_until_idle()  # the worker has acknowledged: no consumer is silent while an hour passes
        leveret.expect(queue=f"mail.wait.{seconds}", ready=1)
        leveret.clock.step(seconds - 1)
        leveret.expect(queue=f"mail.wait.{seconds}", ready=1)
        leveret.clock.step(1)
    leveret.expect(queue=FAILED, ready=1)
    assert len(leveret.history("dead-lettered", reason="expired")) == 3


def test_an_hour_later_the_server_works_again(leveret, channel, server, worker):
    server.works = False
    leveret.clock.stop()
    put(channel, "mail", b"hello", "1")
    leveret.expect(queue="mail.wait.60", ready=1)
    server.works = True
    leveret.clock.step(MINUTE)
    leveret.wait_until_idle()
    assert server.got == [b"hello"]


def test_a_mail_whose_ack_is_lost_is_sent_once(leveret, channel, server, worker):
    lost = leveret.fault("lose-connection-before-ack", queue="mail")
    put(channel, "mail", b"hello", "1")
    leveret.expect("acked", queue="mail")
    assert lost.fired == 1
    assert len(leveret.history("delivered", queue="mail")) == 2
    assert server.got == [b"hello"]


def test_a_confirm_that_fails_is_published_again(leveret, channel):
    leveret.fault("nack-confirms", queue="mail", times=2)
    put(channel, "mail", b"hello", "1")
    assert [len(leveret.history(word)) for word in ("nacked", "confirmed", "routed")] == [2, 1, 3]


def test_mails_that_wait_are_sent_in_their_order(leveret, backlog, server, worker):
    leveret.expect("acked", queue="mail", count=100)
    assert server.got == [b"%d" % number for number in range(100)]


def test_the_broker_dies_between_two_mails(leveret, channel, server, worker):
    server.works = False
    put(channel, "mail", b"hello", "1")
    leveret.expect(queue="mail.wait.60", ready=1)
    leveret.kill()
    server.works = True
    leveret.start()
    leveret.expect(queue="mail", consumers=1)
    leveret.clock.step(MINUTE)
    leveret.wait_until_idle()
    assert server.got == [b"hello"]
