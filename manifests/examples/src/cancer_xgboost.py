"""Breast cancer with distributed XGBoost: trees that two workers grow together.

The data is scikit-learn's bundled set of 569 biopsies with 30 measures each, so nothing is
downloaded. Each worker holds its own rows, and XGBoost adds up their gradients, so that every
worker ends with the same trees. Ray Train's callback reports after each round and commits a
checkpoint every few; when the run starts again, boosting resumes from the last one.
"""

import sys

import ray.train
import xgboost
from ray.train.xgboost import RayTrainReportCallback
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split


def train_func(config):
    """config: rounds, eta, max_depth."""
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    (rows, labels), held_out = split_biopsies()
    mine = xgboost.DMatrix(rows[rank::size], labels[rank::size])
    done, model = resume()
    rounds = config.get("rounds", 20)
    print(f"rounds from {done} rank {rank} of {size}: {mine.num_row()} biopsies", flush=True)
    if done == rounds:
        return
    xgboost.train(
        {
            "objective": "binary:logistic",
            "eval_metric": ["logloss", "error"],
            "eta": config.get("eta", 0.3),
            "max_depth": config.get("max_depth", 3),
            "nthread": 1,
        },
        mine,
        num_boost_round=rounds - done,
        evals=[(held_out, "held_out")],
        xgb_model=model,
        verbose_eval=False,
        callbacks=[
            RayTrainReportCallback(metrics={"loss": "held_out-logloss", "error": "held_out-error"}, frequency=5),
        ],
    )


def split_biopsies():
    """455 biopsies to learn from and 114 held out, the same on every worker."""
    data = load_breast_cancer()
    rows, held_out, labels, held_out_labels = train_test_split(
        data.data, data.target, test_size=0.2, random_state=0, stratify=data.target
    )
    return (rows, labels), xgboost.DMatrix(held_out, held_out_labels)


def resume():
    """How many rounds the run's last checkpoint has, and its model."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, None
    model = RayTrainReportCallback.get_model(checkpoint)
    return model.num_boosted_rounds(), model


def measure(folder):
    """The share of held-out biopsies that a checkpoint's model gets wrong: `python cancer_xgboost.py FOLDER`."""
    model = RayTrainReportCallback.get_model(ray.train.Checkpoint.from_directory(folder))
    _, held_out = split_biopsies()
    return float(((model.predict(held_out) > 0.5) != held_out.get_label()).mean())


if __name__ == "__main__":
    print(measure(sys.argv[1]))
