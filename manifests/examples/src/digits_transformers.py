"""Handwritten digits with Hugging Face Transformers inside Ray Train's TorchTrainer.

A small vision transformer, made from a config with random weights, learns scikit-learn's bundled
images: neither a model nor data is downloaded. `transformers.Trainer` finds Ray Train's process
group by itself; Ray Train's callback reports after each epoch with the Trainer's own
checkpoint. When the run starts again, the Trainer resumes from it. Railhead's callback shows the
progress in between and saves once more before the run or a node ends. TRL's trainers take both too.
"""

import os
import sys
import tempfile

import numpy as np
import ray.train
import torch
import transformers
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from sklearn.datasets import load_digits

from railhead.training.transformers import TrainJobCallback


def train_func(config):
    """config: epochs, lr, batch_size (per worker)."""
    torch.set_num_threads(1)  # a model this small gains nothing from more
    transformers.set_seed(0)
    train_set, held_out = split_digits()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            num_train_epochs=config.get("epochs", 12),
            learning_rate=config.get("lr", 0.001),
            lr_scheduler_type="constant",  # the same whether the run was interrupted or not
            per_device_train_batch_size=config.get("batch_size", 32),
            per_device_eval_batch_size=len(held_out),
            eval_strategy="epoch",
            save_strategy="epoch",
            logging_strategy="epoch",
            save_total_limit=1,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            build_model(),
            arguments,
            train_dataset=train_set,
            eval_dataset=held_out,
            compute_metrics=compute_metrics,
            callbacks=[RayTrainReportCallback(), TrainJobCallback(), Teller()],
        )
        trainer = prepare_trainer(trainer)
        trainer.train(resume_from_checkpoint=fetch_checkpoint())


class Teller(transformers.TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        print(f"epoch {round(state.epoch)} rank {args.process_index}", flush=True)


def build_model():
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=8,
            patch_size=2,
            num_channels=1,
            num_labels=10,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            hidden_dropout_prob=0.0,
        )
    )


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images = torch.tensor(digits.images / 8.0 - 1.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [{"pixel_values": images[i], "labels": labels[i]} for i in order]
    return rows[360:], rows[:360]


def compute_metrics(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(axis=1) == prediction.label_ids))}


def fetch_checkpoint():
    """A local copy of the run's last checkpoint as the Trainer wants it, or None."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    return os.path.join(checkpoint.to_directory(), RayTrainReportCallback.CHECKPOINT_NAME)


def measure(folder):
    """Accuracy of a checkpoint's model on the held-out digits: `python digits_transformers.py FOLDER`."""
    path = os.path.join(folder, RayTrainReportCallback.CHECKPOINT_NAME)
    model = transformers.ViTForImageClassification.from_pretrained(path, local_files_only=True)
    images, labels = (torch.stack([row[name] for row in split_digits()[1]]) for name in ("pixel_values", "labels"))
    with torch.no_grad():
        return (model(images).logits.argmax(dim=1) == labels).float().mean().item()


if __name__ == "__main__":
    print(measure(sys.argv[1]))
