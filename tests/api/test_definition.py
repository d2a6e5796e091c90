"""The CRD's schema as the API server tells it to everybody is the one that the operator needs."""

from __future__ import annotations

import pytest

from railhead.controller.definition import PATH, find_problem
from railhead.local.control_plane.binaries import KUBERNETES_VERSION
from tests.api.server import ApiServer
from tests.waiting import wait_until


def test_our_own_crd_is_served_as_it_is_meant(api_server: ApiServer) -> None:
    wait_until("the schema", lambda: api_server.request("GET", PATH).status == 200)
    assert find_problem(api_server.request("GET", PATH).body) == ""


def test_the_version_is_the_one_that_was_asked_for(api_server: ApiServer, pytestconfig: pytest.Config) -> None:
    wanted = pytestconfig.getoption("--kubernetes") or KUBERNETES_VERSION
    assert f"{api_server.request('GET', '/version').body['gitVersion']}.".startswith(f"v{wanted}.")
