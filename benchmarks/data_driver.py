"""The driver of a user who reads a dataset without Railhead. Copied next to `data_rows.py` and `settings.json`."""

import json
import socket
import time

import ray.data
import ray.train
from data_rows import train_func  # type: ignore[import-not-found]
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

import ray


def main() -> None:
    with open("settings.json") as file:
        settings = json.load(file)
    while not is_listening(settings["ip"], settings["port"]):
        time.sleep(0.05)
    ray.init(address=f"{settings['ip']}:{settings['port']}", _node_ip_address=settings["ip"])
    trainer = DataParallelTrainer(
        train_func,
        train_loop_config=settings["trainLoopConfig"],
        scaling_config=ray.train.ScalingConfig(**settings["scaling"]),
        run_config=ray.train.RunConfig(**settings["run"]),
        datasets={"train": ray.data.read_parquet(settings["data"])},
    )
    print("rate", trainer.fit().metrics["rate"])


def is_listening(ip: str, port: int) -> bool:
    try:
        socket.create_connection((ip, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
