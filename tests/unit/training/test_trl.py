"""A notice to one of two ranks makes both save on that step with TRL's SFTTrainer, which is installed for this test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.training.ranks import Rank, record_progress, run_ranks

# What TRL needs beyond the packages of the tests; it takes their torch, transformers and accelerate.
PACKAGES = ("trl==1.16.0", "datasets==5.2.0", "dill==0.4.1", "multiprocess==0.70.19", "xxhash==4.1.0")
STEPS = 6


def train(rank: int, folder: str, packages: str) -> Any:
    """The reports, and the steps of `progress`."""
    sys.path.append(packages)
    os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=folder)
    import datasets
    import tokenizers
    import transformers
    import trl
    from ray.train.huggingface.transformers import RayTrainReportCallback

    from railhead.training.trl import TrainJobCallback

    me = Rank(folder)
    progress = record_progress()

    class Watch(transformers.TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step == 3 and rank == 1:
                me.notify(deadline=1_000, ranks=[0, 1])

    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, "one": 3, "two": 4}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    config = transformers.GPT2Config(vocab_size=5, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    arguments = trl.SFTConfig(
        output_dir=os.path.join(folder, f"output-{rank}"),
        max_steps=STEPS,
        per_device_train_batch_size=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        max_length=16,
        include_num_input_tokens_seen=True,
    )
    trainer = trl.SFTTrainer(
        transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=datasets.Dataset.from_list([{"text": "one two one two"}] * 12),
        processing_class=tokenizer,
        callbacks=[RayTrainReportCallback(), TrainJobCallback(), Watch()],
    )
    trainer.train()
    return [(path, sorted(os.listdir(path))) for _, path in me.finish_uploads()], progress


@pytest.mark.slow  # it installs TRL
def test_a_notice_to_one_rank_makes_both_save_on_that_step(tmp_path: Path) -> None:
    packages = str(tmp_path / "packages")
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps"]
    command = [*install, "--python", sys.executable, "--target", packages, *PACKAGES]
    subprocess.run(command, check=True, timeout=300)
    (reports, progress), other = run_ranks(2, train, tmp_path, str(tmp_path), packages)
    assert reports == other[0]
    [[checkpoint, names]] = reports
    assert names == ["checkpoint"]
    assert '"global_step": 4' in Path(checkpoint, "checkpoint", "trainer_state.json").read_text()
    assert [step for step, total, tokens in progress if total == STEPS and tokens] == list(range(1, STEPS + 1))
