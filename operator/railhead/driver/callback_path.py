"""Where our callbacks are, for RAY_TRAIN_CALLBACKS; apart, because their modules import Ray Train."""

CALLBACKS = (
    "railhead.driver.callback.ProgressCallback",
    "railhead.driver.shared_storage.SharedStorageCallback",
)
