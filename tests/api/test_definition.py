"""The API server serves the CRD's schema that the operator needs."""

from __future__ import annotations

import pytest

from railhead.api.served import PATH
from railhead.controller.installation import find_problem
from railhead.local.control_plane.binaries import KUBERNETES_VERSION
from tests.api.server import ApiServer
from tests.waiting import wait_until


def test_the_served_schema_is_the_one_the_operator_needs(api_server: ApiServer) -> None:
    wait_until("the schema", lambda: api_server.request("GET", PATH).status == 200)
    assert find_problem(api_server.request("GET", PATH).body) == ""


def test_the_api_server_has_the_requested_version(api_server: ApiServer, pytestconfig: pytest.Config) -> None:
    requested = pytestconfig.getoption("--kubernetes") or KUBERNETES_VERSION
    assert f"{api_server.request('GET', '/version').body['gitVersion']}.".startswith(f"v{requested}.")
