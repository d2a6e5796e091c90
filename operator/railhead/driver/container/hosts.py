"""Finds the head's address, first in a local node's hosts file, then in DNS; and probes whether a port is open.

A worker may start before its head has a name, so the search repeats, quickly at first and
then more slowly, until the pod is terminated from outside.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from typing import Optional

from railhead.driver.messages.log import log

HEAD_RESOURCE = "node:__internal_head__"  # of the head's Ray node
DNS_WAIT_SECONDS = (0.5, 5.0)  # the first and the longest: in a large job all workers ask the cluster's DNS
FILE_WAIT_SECONDS = (0.1, 0.1)  # a file costs nothing
NOTED_AFTER_SECONDS = 10.0


def is_listening(address: str, port: int, *, timeout: float) -> bool:
    """Returns whether anything accepts a connection there within `timeout` seconds."""
    try:
        socket.create_connection((address, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def write_address(host: str, port: int) -> str:
    """Returns host:port, with an IPv6 address in brackets, as Ray reads it."""
    if ":" in host:
        return f"[{host}]:{port}"
    return f"{host}:{port}"


def wait_for_address(host: str, *, own: str, hosts_file: Optional[str]) -> str:
    """Returns the address of a head; `own`: this pod's, in whose family the head listens, too."""
    tries = 0
    waited = 0.0
    is_noted = False
    first, longest = FILE_WAIT_SECONDS if hosts_file else DNS_WAIT_SECONDS
    while True:
        address = find_address(host, own=own, hosts_file=hosts_file)
        if address:
            return address
        wait = compute_pause(tries, first=first, longest=longest)
        tries = tries + 1
        waited = waited + wait
        if waited > NOTED_AFTER_SECONDS and not is_noted:
            is_noted = True
            log(f"the head's name {host} does not resolve yet; still waiting")
        time.sleep(wait * random.uniform(0.8, 1.2))


def compute_pause(tries: int, *, first: float, longest: float) -> float:
    """Returns the seconds before the next try, after `tries` others: they double up to a bound."""
    return float(min(first * 2 ** min(tries, 10), longest))


def find_address(host: str, *, own: str, hosts_file: Optional[str]) -> Optional[str]:
    found = find_in_hosts_file(host, hosts_file)
    if found:
        return found
    try:
        addresses = [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except OSError:
        return None
    of_family = [address for address in addresses if (":" in address) == (":" in own)]
    return (of_family or addresses)[0]


def find_in_hosts_file(host: str, hosts_file: Optional[str]) -> Optional[str]:
    """Returns the address of the name in a file like /etc/hosts, by its last line with the name; None without one."""
    found = None
    with contextlib.suppress(OSError), open(hosts_file or os.devnull) as file:
        for line in file:
            fields = line.split("#", 1)[0].split()
            if host in fields[1:]:
                found = fields[0]
    return found
