"""Inside Ray Train's controller: the steps of our callback, our policies, and the logic behind them."""

# For RAY_TRAIN_CALLBACKS; here, because the module itself imports Ray Train.
CALLBACK = "railhead.driver.train_controller.railhead_callback.RailheadCallback"
