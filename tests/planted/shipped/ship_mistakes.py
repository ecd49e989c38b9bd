"""Mistakes in what is shipped to a second place, in confirms that wait for it, and in who owns it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from broker.server.commits.held_confirms import HeldConfirms
from broker.server.standby.follower import Follower, Promotion
from storage.batch import SealedBatch
from storage.definitions.definition_rows import Change
from storage.ship import place_epochs, place_owner, restored_moment
from storage.ship.announced_chains import AnnouncedChains
from storage.ship.piece_writer import PieceWriter
from storage.ship.place_epochs import Epoch
from storage.ship.place_owner import PlaceOwner
from storage.ship.ship_buffer import ShipBuffer
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.ship_target import PieceExists, ShipTarget
from storage.storage_errors import StoreError
from tests.planted.mistake import Fence, FencedWorlds, Patch, ShippedStates, mistake


@mistake("I13", ShippedStates("has lost|is None, not"))
def definitions_behind_the_messages(patch: Patch) -> None:
    """Ship a change of definitions behind the next batch of messages."""
    batch, definitions = ShipBuffer.batch, ShipBuffer.definitions
    in_hand = list[tuple[Sequence[Change], int]]()

    def keep(_buffer: ShipBuffer, changes: Sequence[Change], number: int) -> None:
        in_hand.append((changes, number))

    def batch_first(buffer: ShipBuffer, sealed: SealedBatch, number: int, payload: bytes) -> None:
        batch(buffer, sealed, number, payload)
        while in_hand:
            definitions(buffer, *in_hand.pop(0))

    patch(ShipBuffer, "definitions", keep)
    patch(ShipBuffer, "batch", batch_first)


@mistake("I13", ShippedStates("has lost|has holes|counts .* and holds", (10,)))
def large_batches_not_shipped(patch: Patch) -> None:
    """Ship only what the journal has: no batch that went to LMDB at once."""
    batch = ShipBuffer.batch

    def journaled(buffer: ShipBuffer, sealed: SealedBatch, number: int, payload: bytes) -> None:
        if payload:
            batch(buffer, sealed, number, payload)

    patch(ShipBuffer, "batch", journaled)


@mistake("I13", ShippedStates("confirmed: .* has lost"))
def confirm_before_it_is_shipped(patch: Patch) -> None:
    """Hold no confirm back, and seal no piece for one."""
    patch(HeldConfirms, "hold", lambda _held, batch: batch)
    patch(ShipBuffer, "urgent", property(lambda _buffer: False))


@mistake("I13", ShippedStates("comes back as of|no whole base", (2, 1)))
def listings_taken_for_complete(patch: Patch) -> None:
    """Look for chains in a listing of the place alone."""
    patch(AnnouncedChains, "names", lambda _announced: [])


@mistake("I13", ShippedStates("comes back as of|no whole base", (2, 1)))
def bases_not_marked(patch: Patch) -> None:
    """Leave the end of a base to the listing of its chain."""
    patch(PieceWriter, "mark_base", lambda _writer: None)


@mistake("I14", Fence("base"))
def confirm_before_there_is_a_base(patch: Patch) -> None:
    """Confirm what is at the place, although nothing can be restored there before the first base is whole."""
    shipped = ShipBuffer.shipped

    def safe_at_once(buffer: ShipBuffer, position: int) -> None:
        shipped(buffer, position)
        buffer.safe = position
        buffer._tell_safe()

    patch(ShipBuffer, "shipped", safe_at_once)


@mistake("I13", FencedWorlds(64, "not on the promoted broker"))
def records_dropped_without_a_new_base(patch: Patch) -> None:
    """Drop records that have no room, and go on behind them."""

    def drop_alone(buffer: ShipBuffer) -> None:
        buffer._waiting.clear()
        buffer._bytes = buffer._messages = 0

    patch(ShipBuffer, "_drop", drop_alone)


@mistake("I13", ShippedStates("nobody is told", (2, 1)))
def damage_not_told(patch: Patch) -> None:
    """End a restore before a piece that is not whole, and say nothing."""
    apply_records = restored_moment._apply_records
    patch(restored_moment, "_apply_records", lambda *given: apply_records(*given)._replace(problems=[]))


@mistake("I13", FencedWorlds(1, "not on the promoted broker"))
def progress_noted_and_nothing_written(patch: Patch) -> None:
    """Have a standby note how far it has read, and leave its stores as they are."""

    def note_alone(followed: FollowedStore) -> None:
        followed._kind = None
        followed._save()

    patch(FollowedStore, "commit", note_alone)


@mistake("I14", FencedWorlds(1, "not on the promoted broker"))
def rest_not_read_by_the_promotion(patch: Patch) -> None:
    """Promote a standby as it is, without what the old broker has shipped since."""
    patch(Follower, "_read_rest", lambda _follower: [])


@mistake("I14", FencedWorlds(2, "not on the promoted broker"))
def rest_read_before_the_fence(patch: Patch) -> None:
    """Read what the old broker has shipped, and then fence it."""
    take_over, read_rest = PlaceOwner.take_over, Follower._read_rest

    def promote(follower: Follower, *, without_place: bool) -> Promotion:
        if follower.stores.store is None:
            raise StoreError("no base was read yet")
        problems = read_rest(follower)
        fenced = take_over(PlaceOwner(follower._target, follower._place, follower._directory))
        follower._before_close()
        return Promotion(follower.stores.promote(), fenced, problems)

    patch(Follower, "promote", promote)


@mistake("I14", FencedWorlds(1, "not on the promoted broker"))
def place_taken_over_by_any_start(patch: Patch) -> None:
    """Take the place at a start, whoever owns it."""

    def claim_anyway(owner: PlaceOwner) -> None:
        if not owner.epoch:
            owner.take_over()

    patch(PlaceOwner, "claim", claim_anyway)


@mistake("I14", FencedWorlds(32, "was fenced, and serves again"))
def fence_not_noted(patch: Patch) -> None:
    """Stop when fenced, and forget it: the next start finds the place not answering, and serves."""
    fence = PlaceOwner._fence
    patch(PlaceOwner, "_fence", lambda owner, _note, by: fence(owner, None, by))


@mistake("I14", Fence("promotion"))
def fence_not_looked_for(patch: Patch) -> None:
    """Go on whoever owns the place."""
    patch(PlaceOwner, "check", lambda _owner: None)


@mistake("I14", Fence("two starts"))
def epoch_taken_from_another(patch: Patch) -> None:
    """Take the next epoch although another broker has taken it at the same moment."""
    take_epoch = place_epochs.take_epoch

    def take_anyway(target: ShipTarget, epoch: Epoch) -> None:
        with suppress(PieceExists):
            take_epoch(target, epoch)

    patch(place_owner, "take_epoch", take_anyway)
