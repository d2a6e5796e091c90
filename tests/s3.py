"""A real S3 server on loopback (moto's), which checks signatures and permissions."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from railhead.local.addresses import free_port
from tests.waiting import wait_until

BUCKET = "experiments"
REGION = "us-east-1"
_POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
_FREE_REQUESTS = 4  # the requests of `start_s3` before there is a user to sign them


@dataclass(frozen=True)
class S3:
    """One server with one bucket and one user."""

    host: str
    key: str
    secret: str

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}"

    @property
    def environment(self) -> dict[str, str]:
        """As set by a Secret named in spec.envFrom."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def build_uri(self, path: str, *, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{path}?endpoint_override={self.host}&scheme=http"

    def list(self, path: str) -> set[str]:
        """Keys below the path, relative to it, without markers of empty folders."""
        client = _make_client("s3", self.endpoint, self.key, self.secret)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{path}/")
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return {key.removeprefix(f"{path}/") for key in keys if not key.endswith("/")}

    def get(self, path: str) -> bytes:
        body: bytes = (
            _make_client("s3", self.endpoint, self.key, self.secret).get_object(Bucket=BUCKET, Key=path)["Body"].read()
        )
        return body

    def put(self, path: str, body: bytes) -> None:
        _make_client("s3", self.endpoint, self.key, self.secret).put_object(Bucket=BUCKET, Key=path, Body=body)


@contextlib.contextmanager
def start_s3(folder: Path) -> Iterator[S3]:
    host = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", host.partition(":")[2]]
    env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(_FREE_REQUESTS)}
    with open(folder / "s3.log", "wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        tell = lambda: (folder / "s3.log").read_text(errors="replace")  # noqa: E731
        wait_until("the S3 server", lambda: _is_up(host), seconds=60, tell=tell)
        iam = _make_client("iam", f"http://{host}", "nobody", "nothing")
        iam.create_user(UserName="trainer")
        iam.put_user_policy(UserName="trainer", PolicyName="all", PolicyDocument=_POLICY)
        key = iam.create_access_key(UserName="trainer")["AccessKey"]
        _make_client("s3", f"http://{host}", "nobody", "nothing").create_bucket(Bucket=BUCKET)
        yield S3(host, key["AccessKeyId"], key["SecretAccessKey"])
    finally:
        server.terminate()
        server.wait()


def _is_up(host: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{host}/moto-api/", timeout=5):
            return True
    except OSError:
        return False


def _make_client(service: str, endpoint: str, key: str, secret: str) -> Any:
    return boto3.client(
        service, endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name=REGION
    )
