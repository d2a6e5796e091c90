"""Saves that choose their time: `dcp.save(..., every=...)`, called at each step.

A save copies the state to the memory of the host, and torch writes it straight into the run's folder while training
continues. Nobody knows of the checkpoint until the ranks, at one of their looks at each other, find that all have
written their parts; then all report it together, which takes no upload. So a part that never gets written ends
nothing: the ranks give that save up together, keep training, and the next one begins in a new folder.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Tuple, Union, cast

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_saver

from railhead.driver.rank.direct_upload import DirectUpload, note_storage_error, show_stuck_save
from railhead.driver.rank.steps import read_losses, saving
from railhead.training._checkpoints import Look, Looks, count_ranks
from railhead.training._save_pace import Every, SavePace
from railhead.training._state_copy import StateCopy
from railhead.training._storage_files import StorageWriter, WriteProgress

State = Union[Dict[str, Any], Callable[[], Dict[str, Any]]]
Metrics = Union[None, Dict[str, Any], Callable[[], Dict[str, Any]]]

# A save is given up that has waited this long for the storage without progress.
STUCK_SECONDS = 300.0
# A file is flushed in one call, so a save gets as much more time as its size takes at this rate.
FLUSH_BYTES_PER_SECOND = 50e6
# Saves that still hold a copy of the state, after which no other begins.
MOST_GIVEN_UP = 2
PAUSE_SECONDS = 0.2  # between two looks while training waits


class BackgroundSave:
    """One checkpoint that is being written, by its part of this rank."""

    def __init__(self, state: State, metrics: Metrics, copy: StateCopy, group: Optional[dist.ProcessGroup]) -> None:
        """Copies the state. All ranks must call it. `group`: for the collectives in the background, and no others."""
        import ray.train

        self._storage = ray.train.get_context().get_storage()
        name = _agree_on_name(self._storage, group)
        self.path = f"{self._storage.experiment_fs_path}/{name}"
        self.progress = WriteProgress()
        self._metrics = metrics() if callable(metrics) else dict(metrics or {})
        self._upload = DirectUpload(self._storage, name, is_rank_0=ray.train.get_context().get_world_rank() == 0)
        self._written = cast(
            "Future[Any]",
            state_dict_saver.async_save(
                state() if callable(state) else state,
                storage_writer=StorageWriter(
                    self._storage.storage_filesystem,
                    self.path,
                    self.progress,
                    copy=copy,
                    check=self._upload.check,
                ),
                process_group=group,
            ),
        )

    @property
    def is_done(self) -> bool:
        """Returns whether all parts are written, or one has failed."""
        return self._written.done()

    @property
    def has_failed(self) -> bool:
        """Returns whether a part could not be written; the same on all ranks once all are done."""
        return self._written.done() and self._written.exception() is not None

    def is_stuck(self, now: float) -> bool:
        """Returns whether the storage does not answer this rank; one that only waits for others is not stuck."""
        progress = self.progress
        limit = STUCK_SECONDS + progress.size / FLUSH_BYTES_PER_SECOND
        return bool(progress.path) and not self.is_done and now - progress.moved_at > limit

    def commit(self) -> None:
        """Reports the checkpoint. All ranks must call it, once all are done."""
        import ray.train

        checkpoint = ray.train.Checkpoint(self.path, filesystem=self._storage.storage_filesystem)
        self._upload.finish(checkpoint, files=self.progress.files, size=self.progress.size)
        ray.train.report(
            self._metrics, checkpoint=checkpoint, checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD
        )

    def raise_error(self) -> None:
        """Raises what has kept a rank from writing its part, as an Exception, which torch's is not."""
        found = self._written.exception()
        text = f"the checkpoint {self.path} could not be written in the background"
        error = RuntimeError(f"{text}: {found}")
        failures = getattr(found, "failures", {})
        for cause, *_ in failures.values():
            note_storage_error(error, cause)
        raise error from found

    def give_up(self) -> None:
        """Leaves the thread that writes to itself; what it has written is removed before a later attempt trains."""
        self.progress.abandon()


class PacedSaves:
    """The saves of one training loop; each rank has its part."""

    def __init__(self, every: Every) -> None:
        """Raises ValueError. All ranks must call it."""
        self.every = every
        self._pace = SavePace(every, ranks=count_ranks(), now=time.monotonic())
        self._look_group = make_gloo_group()
        self._write_group: Optional[dist.ProcessGroup] = None
        self._copy = StateCopy()
        self._looks = Looks(self._look_group)
        self._running: Optional[BackgroundSave] = None
        self._given_up: List[BackgroundSave] = []
        self._is_asked = False  # for a save, by a notice of the end

    def step(self, state: State, metrics: Metrics) -> bool:
        """Returns whether a save has begun. Costs nothing on most steps."""
        look = self._looks.step(self._vote)
        if look is None:
            return False
        self._end_running(look)
        _, _, is_early = look.votes
        self._is_asked |= look.has_notice
        if self._running is not None and look.has_notice:
            # Its commit would end the run before what was trained since is saved.
            self._give_up()
        if self._running is not None or (is_early and not self._is_asked):
            return False
        self._begin(state, metrics)
        return True

    def finish(self) -> None:
        """Waits for the save that is being written, and commits it. All ranks must call it."""
        while self._running is not None:
            self._end_running(self._looks.look(self._vote))
            if self._running is not None:
                time.sleep(PAUSE_SECONDS)
        # The save that follows may need the memory.
        self._copy = StateCopy()

    def _vote(self) -> Tuple[int, ...]:
        """Returns whether this rank still writes, is stuck, and wants no save yet.

        An error needs no vote: once no rank writes, torch has raised it on all of them.
        """
        now = time.monotonic()
        self._pace.note_losses(read_losses())
        is_early = not self._pace.is_due(now) or self._count_given_up() >= MOST_GIVEN_UP
        running = self._running
        if running is None:
            return (0, 0, int(is_early))
        return (int(not running.is_done), int(running.is_stuck(now)), int(is_early))

    def _end_running(self, look: Look) -> None:
        """Commits the save if all ranks have written their parts; raises if one has failed; gives it up if one is
        stuck.

        Only the votes decide. A rank may learn of an error a moment before the others do, and if it raised then, they
        would wait for it in their next collective.
        """
        running = self._running
        if running is None:
            return
        is_being_written, is_stuck, _ = look.votes
        if is_stuck:
            self._explain_stuck(running)
            self._give_up()
            return
        if is_being_written:
            return
        self._running = None
        # This raises on all ranks, since torch tells each of them.
        if running.has_failed:
            running.raise_error()
        self._commit(running)

    def _commit(self, running: BackgroundSave) -> None:
        began = time.monotonic()
        running.commit()
        now = time.monotonic()
        self._pace.add_stall(now - began)
        self._pace.end(now)
        show_stuck_save("")

    def _begin(self, state: State, metrics: Metrics) -> None:
        began = time.monotonic()
        self._pace.begin(began)
        if self._write_group is None:
            self._write_group = make_gloo_group()
        with saving():
            self._running = BackgroundSave(state, metrics, self._copy, self._write_group)
        self._pace.add_stall(time.monotonic() - began)
        self._is_asked = False

    def _give_up(self) -> None:
        if self._running is not None:
            self._running.give_up()
            self._given_up.append(self._running)
            self._running = None
            # Its thread may still be in a collective of this one.
            self._write_group = None
            # That thread may also still read the copy, so the next save gets another one.
            self._copy = StateCopy()

    def _explain_stuck(self, running: BackgroundSave) -> None:
        """Shows it on the rank that is stuck; the others only wait for that one."""
        now = time.monotonic()
        if not running.is_stuck(now):
            return
        rank = dist.get_rank() if dist.is_initialized() else 0
        text = (
            f"the storage has not answered rank {rank} for {now - running.progress.moved_at:.0f} s while it wrote "
            f"{running.progress.path}, so this checkpoint was given up; training continues, and the next save tries "
            "again in a new folder"
        )
        print(f"railhead.training.dcp: {text}", flush=True)
        show_stuck_save(text)

    def _count_given_up(self) -> int:
        self._given_up = [save for save in self._given_up if not save.is_done]
        return len(self._given_up)


def make_gloo_group() -> Optional[dist.ProcessGroup]:
    """Makes a group of all ranks; None without torch.distributed. All ranks must call it."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    return cast(dist.ProcessGroup, dist.new_group(backend="gloo"))


def _agree_on_name(storage: Any, group: Optional[dist.ProcessGroup]) -> str:
    names = [storage.make_default_checkpoint_dir_name()]
    if group is not None:
        dist.broadcast_object_list(names, group=group, group_src=0)
    return cast(str, names[0])
