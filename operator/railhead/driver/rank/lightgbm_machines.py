"""On a local cluster: LightGBM's list of machines in addresses that LightGBM recognises.

A pod of a local cluster has an address of its own in 127.0.0.0/8. LightGBM finds its place in
the list by the addresses of the machine's interfaces, among which there is 127.0.0.1 only, and
else ends with "Machine list file doesn't contain the local machine". The ports in the list are
free on the whole machine, so 127.0.0.1 and the port are as good a name for each worker.

Reaches into ray.train.lightgbm.config, which has no other way in. Does nothing elsewhere.
"""

from __future__ import annotations

import sys
from typing import Any

CONFIG = "ray.train.lightgbm.config"
PARAMETERS = "_lightgbm_network_params"


def use_loopback() -> None:
    """Runs on a worker before train_func, when Ray's LightGBM backend has set it up."""
    config: Any = sys.modules.get(CONFIG)
    parameters = getattr(config, PARAMETERS, None)
    if parameters:
        setattr(config, PARAMETERS, {**parameters, "machines": translate(parameters["machines"])})


def translate(machines: str) -> str:
    """`address:port,...`; unchanged unless all are loopback addresses."""
    if not all(machine.startswith("127.") for machine in machines.split(",")):
        return machines
    return ",".join(f"127.0.0.1:{machine.rpartition(':')[2]}" for machine in machines.split(","))
