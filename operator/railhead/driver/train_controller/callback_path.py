"""Where our callbacks are, for RAY_TRAIN_CALLBACKS; apart, because their modules import Ray Train."""

CALLBACKS = (
    "railhead.driver.train_controller.fence.FenceCallback",  # first: nothing of a run that is another's
    "railhead.driver.train_controller.callback.ProgressCallback",
    "railhead.driver.train_controller.shared_storage.SharedStorageCallback",
    "railhead.driver.train_controller.returns.ReturnsCallback",
    "railhead.driver.train_controller.stacks.StacksCallback",
)
