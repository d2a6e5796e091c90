"""Import paths of our callbacks, for RAY_TRAIN_CALLBACKS; a separate module, because theirs import Ray Train."""

CALLBACKS = (
    "railhead.driver.train_controller.fence.FenceCallback",  # first: touch nothing in a run that belongs to another
    "railhead.driver.train_controller.barriers.BarrierCallback",
    "railhead.driver.train_controller.callback.ProgressCallback",
    "railhead.driver.train_controller.old_processes.OldProcessesCallback",
    "railhead.driver.train_controller.shared_storage.SharedStorageCallback",
    "railhead.driver.train_controller.returns.ReturnsCallback",
    "railhead.driver.train_controller.stacks.StacksCallback",
    "railhead.driver.train_controller.end_notice.EndNoticeCallback",
)
