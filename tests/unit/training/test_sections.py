"""The forward passes of a real module in training mode are sections, until the marks end."""

from __future__ import annotations

import pytest
import torch

from railhead.driver.rank.sections import Sections
from railhead.driver.rank.steps import RankProgress
from railhead.training import _sections
from railhead.training._sections import mark_forward_passes


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> RankProgress:
    found = RankProgress()
    monkeypatch.setattr(_sections, "SECTIONS", Sections(found))
    return found


def test_passes_in_training_mode_count_until_the_marks_end(sums: RankProgress) -> None:
    inner = torch.nn.Linear(2, 1)
    outer = torch.nn.Sequential(inner)  # stands for DDP
    end = mark_forward_passes(inner)
    outer(torch.ones(2))
    outer.eval()
    outer(torch.ones(2))
    outer.train()
    assert outer(torch.ones(2)).requires_grad, "the hooks change no result"
    assert sums.sections == 2 and sums.section_seconds > 0
    end()
    outer(torch.ones(2))
    assert sums.sections == 2


def test_a_pass_that_raises_does_not_count(sums: RankProgress) -> None:
    layer = torch.nn.Linear(2, 1)
    mark_forward_passes(layer)
    with pytest.raises(RuntimeError):
        layer(torch.ones(3))
    layer(torch.ones(2))
    assert sums.sections == 1


def test_a_compiled_module_is_left_alone(sums: RankProgress) -> None:
    layer = torch.nn.Linear(2, 1)
    layer.compile(backend="eager")
    mark_forward_passes(layer)()
    assert not layer._forward_pre_hooks and not layer._forward_hooks
