"""The API server judges the paths and URIs of a spec as the operator and the command line do."""

from __future__ import annotations

import pytest

from tests.api.locations import PLACES
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH, make_job


def apply(api_server: ApiServer, place: str, text: str) -> tuple[int, str]:
    answer = api_server.request("POST", PATH, make_job(PLACES[place].change(text)), dryRun="All")
    return answer.status, answer.message


# All of them are slow: the test of the same name in tests/unit/api tries them without an API server.
@pytest.mark.parametrize("once", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_seen_or_leads_elsewhere_is_refused(api_server: ApiServer, place: str, once: bool) -> None:
    accepted = []
    for text in PLACES[place].list_bad(once=once):
        status, message = apply(api_server, place, text)
        assert message.replace("\n", "").isprintable(), ascii(message)
        if status != 422:
            accepted.append(ascii(text))
    assert not accepted


@pytest.mark.parametrize("place", PLACES)
def test_what_a_name_may_have_is_accepted(api_server: ApiServer, place: str) -> None:
    refused = []
    for text in PLACES[place].list_good():
        status, message = apply(api_server, place, text)
        if status != 201:
            refused.append((text, message))
    assert not refused


@pytest.mark.parametrize("path", ["/opt/railhead", "opt/railhead/", "//tmp//railhead", "/run/railhead"])
def test_no_volume_hides_one_of_railheads_own(api_server: ApiServer, path: str) -> None:
    status, message = apply(api_server, "spec.podTemplate.spec.containers.volumeMounts", path)
    assert status == 422 and "a volume of Railhead is at this path" in message
