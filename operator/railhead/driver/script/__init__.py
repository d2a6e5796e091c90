"""trainer.entrypoint: the user's script as the Ray driver, next to ours in the head pod."""
