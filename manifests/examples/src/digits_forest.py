"""Handwritten digits with scikit-learn: a forest of which each worker grows its own trees.

`framework: Python` is Ray Train without a backend: the workers do not talk to each other, and
the train_func decides who does what. Here each has its own rows of scikit-learn's bundled
digits and its own trees. Every rank reports a checkpoint with a file of its own, and Ray Train
puts them into one folder: the whole forest. When the run starts again, each rank resumes
from its file.
"""

import os
import pickle
import sys
import tempfile

import ray.train
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split


def train_func(config):
    """config: rounds, trees (that each worker adds in a round)."""
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    (images, labels), held_out = split_digits()
    forest = resume(rank) or RandomForestClassifier(n_estimators=0, warm_start=True, random_state=rank)
    trees = config.get("trees", 10)
    for done in range(forest.n_estimators // trees, config.get("rounds", 5)):
        forest.n_estimators += trees
        forest.fit(images[rank::size], labels[rank::size])
        accuracy = forest.score(*held_out)
        print(f"round {done} rank {rank} trees {forest.n_estimators} accuracy {accuracy:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, f"forest-{rank}.pkl"), "wb") as file:
                pickle.dump(forest, file)
            metrics = {"round": done, "trees": forest.n_estimators, "accuracy": accuracy}
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images, held_out, labels, held_out_labels = train_test_split(
        digits.data, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    return (images, labels), (held_out, held_out_labels)


def resume(rank):
    """This rank's part of the run's last checkpoint, if it has one."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return load(folder).get(rank)


def load(folder):
    """The parts of a forest, by the rank that grew them."""
    parts = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("forest-"):
            with open(os.path.join(folder, name), "rb") as file:
                parts[int(name[len("forest-") : -len(".pkl")])] = pickle.load(file)
    return parts


def measure(folder):
    """Accuracy of the whole forest, and of its first part by itself: `python digits_forest.py FOLDER`."""
    images, labels = split_digits()[1]
    parts = load(folder)
    chances = sum(part.predict_proba(images) for part in parts.values())
    return float((chances.argmax(axis=1) == labels).mean()), parts[0].score(images, labels)


if __name__ == "__main__":
    print(*measure(sys.argv[1]))
