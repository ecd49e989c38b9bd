"""A power failure at any instant of a whole broker's life loses nothing that its clients were promised.

The real process is recorded, its sockets included, while several clients use everything that leaves a trace on disk,
and while the broker is killed, stopped and started again. The promises are read from what the broker sent.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.wire.methods import BasicAck, ExchangeDeclareOk, QueueBindOk, QueueDeclareOk, QueueDeleteOk, TxCommitOk
from tests.durability.crash.exploring import SEED, assert_covered, explored, needs_compiler, told
from tests.durability.crash.recording.recorded import record_broker
from tests.durability.crash.recording.recorded_sockets import Conversations
from tests.durability.ledgers.conversation import Answer

PROMISES = {BasicAck, TxCommitOk, QueueDeclareOk, QueueDeleteOk, QueueBindOk, ExchangeDeclareOk, Answer}
"""What the broker must have answered in the record: of messages, transactions and definitions."""


@needs_compiler
@pytest.mark.slow
def test_no_crash_loses_what_a_client_was_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = record_broker(tmp_path / "record", SEED)
    findings = explored(recording)
    with capsys.disabled():
        print(f"\n{findings.states} crash states of the whole broker recovered, judged {findings.judged} times", end="")
        print(f" (seed {SEED})")
    assert told(recording, findings) == []
    assert_covered(recording, findings)
    conversations = Conversations()
    said = [said for event in recording.events() for said in conversations.follow(event)]
    assert {type(each.what) for each in said if not each.by_client} >= PROMISES
