"""trainer.entrypoint: a whole script of the user as the driver, beside ours in the head pod."""
