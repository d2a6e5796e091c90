"""What `railhead ui` costs with many jobs and many viewers, against a real API server: `python -m benchmarks.page`.

The viewers are windows of one headless Chromium. The jobs change all the time, as those of a busy cluster do.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from tests.api.conftest import CRDS
from tests.api.server import ApiServer
from tests.ui.scenes import make_training
from tools.chromium import resolve_chromium

from railhead.api import crd
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve

JOBS = "/apis/railhead.dev/v1alpha1/namespaces/default/trainjobs"
MERGE_PATCH = "application/merge-patch+json"
CREATED_AT_ONCE = 4
SETTLE_SECONDS = 3
MEASURED_SECONDS = 15
ROW = ".ag-center-cols-container .ag-row"
TIMEOUT = 120_000
REQUESTS = re.compile(r'^apiserver_request_total\{.*[,{]resource="(\w+)".*verb="(\w+)".*\} (\S+)$', re.M)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--changes", type=int, default=5, help="of jobs, per second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder), binaries=resolve(say))
        try:
            plane.start()
            measure(plane, options.jobs, options.viewers, options.changes)
        finally:
            plane.stop()


def say(text: str) -> None:
    print(text, flush=True)


def measure(plane: ControlPlane, jobs: int, viewers: int, changes: int) -> None:
    """Prints a line per state of the page."""
    server = ApiServer(plane)
    server.request("POST", CRDS, crd.build_crd())
    while server.request("GET", JOBS).status != 200:
        time.sleep(0.1)
    create_all(plane, jobs)
    say(f"{jobs} jobs, {changes} changes per second")
    with keep_changing(plane, jobs, changes):
        report(plane, "without a page", None)
        with serve(plane) as (process, address), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=resolve_chromium(say), args=["--no-sandbox"])
            report(plane, "a page without a viewer", process)
            window = browser.new_context()
            say(f"first view of all jobs, nothing in the browser's cache: {open_jobs(window, address):.1f} s")
            say(f"the same in a second window: {open_jobs(window, address):.1f} s")
            say(f"first view of one job: {open_job(window, address):.1f} s")
            say(f"first view of another one: {open_job(window, address, 'job-0001'):.1f} s")
            say(f"{viewers - 4} more windows: {open_windows(browser, address, viewers - 4):.1f} s")
            report(plane, f"a page with {viewers} viewers, two of a job", process)
            browser.close()


def create_all(plane: ControlPlane, jobs: int) -> None:
    def create_some(first: int) -> None:
        server = ApiServer(plane)
        for number in range(first, jobs, CREATED_AT_ONCE):
            create(server, f"job-{number:04}")
        server.close()

    with ThreadPoolExecutor(CREATED_AT_ONCE) as pool:
        list(pool.map(create_some, range(CREATED_AT_ONCE)))


def create(server: ApiServer, name: str) -> None:
    job = make_training(name)
    body = {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {**job["spec"], "image": "registry.example.com/train:1"},
    }
    made = server.request("POST", JOBS, body)
    assert made.status == 201, made.message
    done = server.request("PATCH", f"{JOBS}/{name}/status", {"status": job["status"]}, content_type=MERGE_PATCH)
    assert done.status == 200, done.message


@contextmanager
def serve(plane: ControlPlane) -> Iterator[tuple[psutil.Process, str]]:
    command = [sys.executable, "-m", "railhead.cli", "ui", "--kubeconfig", str(plane.kubeconfig), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield psutil.Process(process.pid), process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def keep_changing(plane: ControlPlane, jobs: int, changes: int) -> Iterator[None]:
    has_ended = threading.Event()

    def change() -> None:
        server = ApiServer(plane)
        number = 0
        while not has_ended.wait(1 / changes):
            number += 1
            progress = {"progress": {"percentComplete": number % 101}}
            path = f"{JOBS}/job-{number % jobs:04}/status"
            done = server.request("PATCH", path, {"status": progress}, content_type=MERGE_PATCH)
            assert done.status == 200, done.message
        server.close()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def report(plane: ControlPlane, state: str, page: psutil.Process | None) -> None:
    """Prints what the page and the API server take after the state has settled, and which requests that answers."""
    server = psutil.Process(plane.pids()["kube-apiserver"])
    time.sleep(SETTLE_SECONDS)
    watched = [each for each in (server, page) if each is not None]
    before = count_requests(plane)
    for process in watched:
        process.cpu_percent()
    time.sleep(MEASURED_SECONDS)
    say(f"{state}: the API server takes {server.cpu_percent():.1f} % of a core")
    if page is not None:
        say(f"  the page takes {page.memory_info().rss >> 20} MiB, {page.cpu_percent():.1f} % of a core")
    asked = count_requests(plane) - before
    say(f"  requests in {MEASURED_SECONDS} s: { ({' '.join(each): number for each, number in sorted(asked.items())}) }")


def open_jobs(window: BrowserContext, address: str) -> float:
    """Returns the seconds until a new window shows a row."""
    page = window.new_page()
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    page.locator(ROW).first.wait_for(timeout=TIMEOUT)
    return time.monotonic() - began


def open_windows(browser: Browser, address: str, number: int) -> float:
    """Returns the seconds until each of them, of a viewer of its own, shows a row."""
    pages = [browser.new_context().new_page() for _ in range(number)]
    began = time.monotonic()
    for page in pages:
        page.goto(address, wait_until="commit")
    for page in pages:
        page.locator(ROW).first.wait_for(timeout=TIMEOUT)
    return time.monotonic() - began


def open_job(window: BrowserContext, address: str, name: str = "job-0000") -> float:
    """Returns the seconds until a new window shows what the job does and why."""
    page = window.new_page()
    began = time.monotonic()
    page.goto(f"{address.partition('/?')[0]}/jobs/default/{name}", wait_until="commit")
    page.get_by_text("What to do:").first.wait_for(timeout=TIMEOUT)
    return time.monotonic() - began


def count_requests(plane: ControlPlane) -> Counter[tuple[str, str]]:
    """Returns how many requests the API server has answered, by verb and resource; a watch counts when it ends."""
    kubectl = [str(plane.binaries / "kubectl"), "--kubeconfig", str(plane.kubeconfig), "get", "--raw", "/metrics"]
    text = subprocess.run(kubectl, capture_output=True, text=True, check=True).stdout
    found = Counter[tuple[str, str]]()
    for resource, verb, number in REQUESTS.findall(text):
        if resource in ("trainjobs", "pods", "events"):
            found[verb, resource] += int(float(number))
    return found


if __name__ == "__main__":
    main()
