"""Paged messages: how the ready messages of a queue leave memory when it gets short.

Which tiers there are, and why, is in message_tiers.py. Here messages are moved out of memory, from
alpha to beta or gamma, and from there to delta. The way back is in variable_queue.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from warren.storage.index.states import SEGMENTED, STORED, VOLATILE
from warren.storage.queue.message_tiers import (
    KEEP_EVERYTHING,
    PLACES_SHARE,
    MessageTiers,
    is_bodiless,
    is_body_out,
    runs_of_sequences,
)
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES, PLACE_BYTES
from warren.wire.codec import QueuedMessage

PAGED_PER_STEP_MAX: Final = 8_192
CHOSEN_PER_STEP_MAX: Final = 2_048
LEAVING_BYTES_MAX: Final = 16 * 1_048_576
"""No more is given to the disk at a time, so that others find their way there, too."""
RETURNED_MAX: Final = 1_024

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_VOLATILE = VOLATILE
_SEGMENTED = SEGMENTED
_STORED = STORED
_OVERHEAD = MESSAGE_OVERHEAD_BYTES
_PLACE = PLACE_BYTES


class PagedMessages(MessageTiers):
    """Messages that leave memory when the queue is told to save it, or is lazy."""

    def set_lazy(self, lazy: bool) -> None:
        if lazy == self.is_lazy:
            return
        self.is_lazy = lazy
        self._reader.mode_changed(self, lazy)
        if lazy:
            self.loaded_below = 0
            self._keep_at_most(0)
            if self.length:
                self._reader.scatter_now()
        else:
            self.use_memory()

    def save_memory(self, keep_bytes: int) -> None:
        """Keep no more than this in memory, as soon as the disk has the rest.

        A lazy queue does anyway.
        """
        assert keep_bytes >= 0, "there is use_memory"
        if not self.is_lazy:
            self._keep_at_most(keep_bytes)

    def _keep_at_most(self, keep_bytes: int) -> None:
        self.keep_bytes = keep_bytes
        self._charge(self.back_bytes - self.charged_bytes)
        self.page_out()

    def use_memory(self) -> None:
        """What comes may stay in memory; what is on disk comes back when it is needed."""
        if self.is_lazy:
            return
        self.keep_bytes = KEEP_EVERYTHING
        self._stay()
        self.release_credit()

    def _body_stored(self) -> None:
        """Message stores have bodies that may leave memory now."""
        if self.keep_bytes >= 0:
            self._page_on_soon()

    def page_out(self) -> None:
        """Move what is beyond `keep_bytes` and on disk, but not what was just read.

        Nothing while a piece of delta is being read: it continues what `front` has now.
        """
        if self.keep_bytes < 0 or self.is_loading:
            return
        if len(self.returned) > RETURNED_MAX and self.unacked_count == 0 and not self.is_filling:
            self._take_back_returned()
        room = self._page_leaving(PAGED_PER_STEP_MAX)
        self._choose_leaving()
        room = self._page_back(self._page_leaving(room))
        room = self._page_places(room)
        self._give_back()
        if room <= 0 or self._has_more_to_choose() or self._has_more_to_give():
            self._page_on_soon()
        elif self.credit.is_exhausted and self.back:
            self._reader.scatter_now()
        self.check()

    def _page_on_soon(self) -> None:
        if not self.is_paging:
            self.is_paging = True
            self._reader.call_soon(self._page_on)

    def _page_on(self) -> None:
        self.is_paging = False
        self.page_out()

    def _has_more_to_choose(self) -> bool:
        return (
            bool(self.front)
            and self.leaving_bytes < LEAVING_BYTES_MAX
            and self.front[-1].sequence >= self.loaded_below
            and self.surplus_bytes > 0
            and not ((self.leaving or self.is_filling) and is_bodiless(self.front[-1]))
        )

    def _choose_leaving(self) -> None:
        """Take the newest of `front`, as many as are too much; what has no body is a place."""
        chosen: list[QueuedMessage] = []
        surplus = self.surplus_bytes
        steps = CHOSEN_PER_STEP_MAX
        places = self._permitted_places() - self.places - len(self.leaving)
        while surplus > 0 and steps > 0 and self._may_choose(chosen):
            queued = self.front.pop()
            steps -= 1
            if places > 0:
                places -= 1
                surplus += _PLACE
            if is_bodiless(queued):
                surplus -= _PLACE
                self.uncount_bodiless(queued)
                self._drop_body(queued)
                self.q3.appendleft(queued)
                continue
            surplus -= queued.size + _OVERHEAD
            self.leaving_bytes += queued.size + _OVERHEAD
            chosen.append(queued)
        if not chosen:
            return
        chosen.reverse()
        for queued in chosen:
            if queued.state == _VOLATILE:
                self.indexed().write_out(queued)
        self.leaving[:0] = chosen

    def _may_choose(self, chosen: list[QueuedMessage]) -> bool:
        if not self.front or self.leaving_bytes >= LEAVING_BYTES_MAX:
            return False
        if self.front[-1].sequence < self.loaded_below:
            return False
        # A place cannot pass those that wait for the disk, nor go while its body is being read.
        is_awaited = chosen or self.leaving or self.is_filling
        return not (is_awaited and is_bodiless(self.front[-1]))

    def _page_leaving(self, room: int) -> int:
        leaving = self.leaving
        permitted = self._permitted_places()
        while room > 0 and leaving:
            queued = leaving[-1]
            if not is_body_out(queued):
                break
            if permitted == 0 and not self.q3 and queued.state == _SEGMENTED:
                self._page_before_delta(queued)
            else:
                self._drop_body(queued)
                self.q3.appendleft(queued)
            leaving.pop()
            self.leaving_bytes -= queued.size + _OVERHEAD
            room -= 1
        return room

    def _page_back(self, room: int) -> int:
        back = self.back
        permitted = self._permitted_places()
        while room > 0 and back:
            queued = back[0]
            if not is_body_out(queued):
                break
            if is_bodiless(queued):
                self.back_bodiless -= 1
                self.back_bodiless_bytes -= queued.size
                self._uncount_beta(queued)
            if self.places >= permitted and not self.q2 and queued.state == _SEGMENTED:
                # It would be the first place to go: the middle is where it is.
                self._page_after_delta(queued)
            else:
                self._drop_body(queued)
                (self.q2 if self.delta_count else self.q3).append(queued)
            back.popleft()
            size = queued.size + _OVERHEAD
            self.back_bytes -= size
            if self.given_count > 0:
                self.given_count -= 1
                self.given_bytes -= size
            room -= 1
        self.release_credit()
        return room

    def _page_places(self, room: int) -> int:
        """Let go of places, those in the middle first, if there are more than may be kept."""
        permitted = self._permitted_places()
        while room > 0 and self.places > permitted:
            is_paged = self._page_oldest_of_q2() if self.q2 else self._page_newest_of_q3()
            if not is_paged:
                break
            room -= 1
        return room

    def _permitted_places(self) -> int:
        return self.keep_bytes // PLACES_SHARE // _PLACE

    def _page_newest_of_q3(self) -> bool:
        """False if the index has no entry for it yet."""
        queued = self.q3[-1]
        if queued.state != _SEGMENTED:
            self._enter_stored(reversed(self.q3))
            return False
        self.q3.pop()
        self.uncount_place(queued)
        self._page_before_delta(queued)
        return True

    def _page_oldest_of_q2(self) -> bool:
        queued = self.q2[0]
        if queued.state != _SEGMENTED:
            self._enter_stored(self.q2)
            return False
        self.q2.popleft()
        self.uncount_place(queued)
        self._page_after_delta(queued)
        return True

    def _enter_stored(self, places: Iterable[QueuedMessage]) -> None:
        """Give betas an entry in the index: their places are to go."""
        for queued in islice(places, CHOSEN_PER_STEP_MAX):
            if queued.state == _STORED:
                self.beta_count -= 1
                self.indexed().enter_stored(queued)

    def _page_before_delta(self, queued: QueuedMessage) -> None:
        if self.delta_count == 0:
            self.delta_end = queued.sequence + 1
        self.delta_start = queued.sequence
        self._count_paged(queued)

    def _page_after_delta(self, queued: QueuedMessage) -> None:
        if self.delta_count == 0:
            self.delta_start = queued.sequence
        self.delta_end = queued.sequence + 1
        self._count_paged(queued)

    def _has_more_to_give(self) -> bool:
        return self.given_count < len(self.back) and self.given_bytes < LEAVING_BYTES_MAX

    def _give_back(self) -> None:
        """Some of what was published while all could stay in memory."""
        if not self._has_more_to_give():
            return
        first = self.given_count
        for queued in list(islice(self.back, first, first + CHOSEN_PER_STEP_MAX)):
            self._give(queued)

    def _give(self, queued: QueuedMessage) -> None:
        if queued.state == _VOLATILE:
            self.indexed().write_out(queued)
        self.given_count += 1
        self.given_bytes += queued.size + _OVERHEAD

    def _take_back_returned(self) -> None:
        """Nobody has any of the queue's messages: all that came back is where it was before.

        Not in a queue that counts deliveries, for a message on disk has no such count.
        """
        returned = sorted(self.returned)
        if any(queued.delivery_count for _, queued in returned):
            return
        runs = runs_of_sequences([sequence for sequence, _ in returned])
        self._reader.note_delivered(self.indexed(), runs)
        self.front.extendleft([queued for _, queued in reversed(returned)])
        self.returned.clear()
        self.loaded_below = 0

    def append_back(self, queued: QueuedMessage) -> None:
        """What was published, when it is not to stay in memory or comes after what did not."""
        size = queued.size + _OVERHEAD
        is_all_given = self.given_count == len(self.back)
        self.back.append(queued)
        self.back_bytes += size
        if is_bodiless(queued):
            self.back_bodiless += 1
            self.back_bodiless_bytes += queued.size
        if self.keep_bytes >= 0:
            if is_all_given:
                self._give(queued)
            self._charge(size)

    def _charge(self, size: int) -> None:
        self.charged_bytes += size
        self.credit.charge(size, self.flow)
        if self.credit.is_exhausted:
            self._reader.scatter_now()
