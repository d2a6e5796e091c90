"""The driver of a user without Railhead: connect to Ray, train, print the result.

Copied next to the code of train_func and `settings.json` and run there by `by_hand.py`.
"""

import importlib
import json
import socket
import time

import ray.train
from ray.train.torch import TorchConfig, TorchTrainer

import ray


def main() -> None:
    with open("settings.json") as file:
        settings = json.load(file)
    module, _, function = settings["trainFunc"].partition(":")
    if isinstance(settings["scaling"]["num_workers"], list):  # JSON has no tuples
        settings["scaling"]["num_workers"] = tuple(settings["scaling"]["num_workers"])
    trainer = TorchTrainer(
        getattr(importlib.import_module(module), function),
        train_loop_config=settings["trainLoopConfig"],
        scaling_config=ray.train.ScalingConfig(**settings["scaling"]),
        run_config=ray.train.RunConfig(
            **settings["run"],
            failure_config=ray.train.FailureConfig(**settings["failure"]),
            checkpoint_config=ray.train.CheckpointConfig(**settings["checkpoint"]),
        ),
        torch_config=TorchConfig(**settings["torch"]),
    )
    while not is_listening(settings["ip"], settings["port"]):
        time.sleep(0.05)
    ray.init(address=f"{settings['ip']}:{settings['port']}", _node_ip_address=settings["ip"])
    result = trainer.fit()
    print("accuracy", (result.metrics or {}).get("accuracy"))


def is_listening(ip: str, port: int) -> bool:
    try:
        socket.create_connection((ip, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
