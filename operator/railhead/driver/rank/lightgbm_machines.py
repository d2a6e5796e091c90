"""On a local cluster: LightGBM's list of machines, with addresses that LightGBM recognises.

Each pod of a local cluster has its own address in 127.0.0.0/8. LightGBM finds itself in the list
by the addresses of the machine's interfaces, of which only 127.0.0.1 is a loopback one, and otherwise
fails with "Machine list file doesn't contain the local machine". The ports in the list are
unique on the machine, so 127.0.0.1 and the port identify each worker just as well.

Reaches into ray.train.lightgbm.config, which has no other hook. Does nothing on other clusters.
"""

from __future__ import annotations

import sys
from typing import Any

CONFIG = "ray.train.lightgbm.config"
PARAMETERS = "_lightgbm_network_params"


def use_loopback() -> None:
    """Runs on a worker before train_func, after Ray's LightGBM backend has set it up."""
    config: Any = sys.modules.get(CONFIG)
    parameters = getattr(config, PARAMETERS, None)
    if parameters:
        setattr(config, PARAMETERS, {**parameters, "machines": translate(parameters["machines"])})


def translate(machines: str) -> str:
    """`address:port,...`; unchanged unless all are loopback addresses."""
    if not all(machine.startswith("127.") for machine in machines.split(",")):
        return machines
    return ",".join(f"127.0.0.1:{machine.rpartition(':')[2]}" for machine in machines.split(","))
