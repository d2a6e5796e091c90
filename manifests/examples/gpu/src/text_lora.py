"""LoRA for a causal language model with Transformers and PEFT, in bf16 on GPUs and with gloo where there are none.

The base model is a small Llama with random weights, so nothing is downloaded; for a real one, replace build_base by
`AutoModelForCausalLM.from_pretrained`. Only the adapter's weights are trained, and only they are in a checkpoint. The
text is the help that comes with Python, half a megabyte of English as bytes.
"""

import os
import pydoc_data.topics
import tempfile

import numpy as np
import peft
import ray.train
import torch
import transformers
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer

from railhead.training.transformers import TrainJobCallback

HELD_OUT = 8192  # bytes at the end of the text


def train_func(config):
    """config: steps, save_every, batch (per worker), lr, rank, and those of build_base."""
    transformers.set_seed(0)  # the base model is the same on all workers, and again when the run resumes
    model = peft.get_peft_model(
        build_base(config),
        peft.LoraConfig(
            task_type="CAUSAL_LM",
            r=config["rank"],
            lora_alpha=2 * config["rank"],
            target_modules="all-linear",
            # Completely trained, since the base model does not know this vocabulary of bytes.
            modules_to_save=["embed_tokens", "lm_head"],
        ),
    )
    train_set, held_out = load_text(config["context"])
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=config["steps"],
            save_strategy="steps",
            save_steps=config["save_every"],
            eval_strategy="steps",
            eval_steps=config["save_every"],
            logging_steps=config["save_every"],
            per_device_train_batch_size=config["batch"],
            learning_rate=config["lr"],
            bf16=True,  # the base model's weights are in bf16 as well; the adapter's and the optimizer's are in fp32
            use_cpu=not torch.cuda.is_available(),
            ddp_find_unused_parameters=False,  # each of the adapter's weights is used in each step
            dataloader_num_workers=0,  # the text is in memory; with more, the batches go through /dev/shm
            include_num_input_tokens_seen=True,  # the status then has tokens per second
            report_to="none",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=train_set,
            eval_dataset=held_out,
            callbacks=[RayTrainReportCallback(), TrainJobCallback(), Teller()],
        )
        prepare_trainer(trainer).train(resume_from_checkpoint=fetch_checkpoint())


class Teller(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **kwargs):
        trained, total = model.get_nb_trainable_parameters()
        print(
            f"rank {args.process_index} of {args.world_size} on {args.device} begins at step {state.global_step}:"
            f" trains {trained} of {total} weights",
            flush=True,
        )


def build_base(config):
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=256,
            hidden_size=config["width"],
            intermediate_size=4 * config["width"],
            num_hidden_layers=config["layers"],
            num_attention_heads=config["heads"],
            max_position_embeddings=config["context"],
            bos_token_id=None,
            eos_token_id=None,
            tie_word_embeddings=False,
            use_cache=False,
            dtype=torch.bfloat16,
        )
    ).to(torch.bfloat16)


def load_text(length):
    """Sequences of bytes to learn from and held-out ones, the same on every worker."""
    text = "\n".join(pydoc_data.topics.topics.values()).encode()
    rows = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
    rows = torch.from_numpy(rows[: len(rows) // length * length].reshape(-1, length))
    rows = [{"input_ids": row, "labels": row} for row in rows]  # the model shifts the labels itself
    held_out = HELD_OUT // length
    return rows[:-held_out], rows[-held_out:]


def fetch_checkpoint():
    """Returns a local copy of the run's last checkpoint as the Trainer wants it, or None."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    return os.path.join(checkpoint.to_directory(), RayTrainReportCallback.CHECKPOINT_NAME)
