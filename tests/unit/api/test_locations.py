"""Every path and URI of a spec has only characters that are seen, and no segment that leads out of it."""

from __future__ import annotations

import pytest

from railhead.api.parsed_spec import InvalidSpec, parse_spec
from tests.api.locations import PLACES
from tests.api.trainjobs import make_job


@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_seen_or_leads_elsewhere_is_refused(place: str) -> None:
    for text in PLACES[place].list_bad():
        with pytest.raises(InvalidSpec) as refused:
            parse_spec(make_job(PLACES[place].change(text))["spec"])
        assert str(refused.value).isprintable() and text not in str(refused.value), ascii(text)


@pytest.mark.parametrize("place", PLACES)
def test_what_a_name_may_have_is_accepted(place: str) -> None:
    for text in PLACES[place].list_good():
        parse_spec(make_job(PLACES[place].change(text))["spec"])
