"""Wines by their chemistry with distributed LightGBM: trees that two workers grow together.

The data is scikit-learn's bundled set of 178 wines of three growers, so nothing is downloaded.
Each worker holds its own rows; LightGBM's workers find each other through Ray Train's
`get_network_params` and end with the same trees. Ray Train's callback reports after each round
and commits a checkpoint every few; when the run starts again, boosting resumes from the last one.
"""

import sys

import lightgbm
import ray.train
from ray.train.lightgbm import RayTrainReportCallback, get_network_params
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split


def train_func(config):
    """config: rounds, learning_rate."""
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    (rows, labels), (held_out, held_out_labels) = split_wines()
    mine = lightgbm.Dataset(rows[rank::size], labels[rank::size])
    done, model = resume()
    rounds = config.get("rounds", 20)
    print(f"rounds from {done} rank {rank} of {size}: {len(rows[rank::size])} wines", flush=True)
    if done == rounds:
        return
    lightgbm.train(
        {
            "objective": "multiclass",
            "num_class": 3,
            "metric": ["multi_logloss", "multi_error"],
            "learning_rate": config.get("learning_rate", 0.2),
            "num_leaves": 4,
            "min_data_in_leaf": 5,
            "num_threads": 1,
            "verbosity": -1,
            "tree_learner": "data",
            "pre_partition": True,  # each worker has its own rows already
            **(get_network_params() if size > 1 else {}),
        },
        mine,
        num_boost_round=rounds - done,
        valid_sets=[lightgbm.Dataset(held_out, held_out_labels, reference=mine)],
        valid_names=["held_out"],
        init_model=model,
        callbacks=[
            RayTrainReportCallback(
                metrics={"loss": "held_out-multi_logloss", "error": "held_out-multi_error"}, frequency=5
            ),
        ],
    )


def split_wines():
    """124 wines to learn from and 54 held out, the same on every worker."""
    data = load_wine()
    rows, held_out, labels, held_out_labels = train_test_split(
        data.data, data.target, test_size=0.3, random_state=0, stratify=data.target
    )
    return (rows, labels), (held_out, held_out_labels)


def resume():
    """How many rounds the run's last checkpoint has, and its model."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, None
    model = RayTrainReportCallback.get_model(checkpoint)
    return model.current_iteration(), model


def measure(folder):
    """The share of held-out wines that a checkpoint's model gets wrong: `python wine_lightgbm.py FOLDER`."""
    model = RayTrainReportCallback.get_model(ray.train.Checkpoint.from_directory(folder))
    rows, labels = split_wines()[1]
    return float((model.predict(rows).argmax(axis=1) != labels).mean())


if __name__ == "__main__":
    print(measure(sys.argv[1]))
