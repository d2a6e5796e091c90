"""Handwritten digits with TensorFlow's MultiWorkerMirroredStrategy.

The data is scikit-learn's bundled set of 1,797 images, so nothing is downloaded. Ray Train passes
TensorFlow the other workers' addresses (TF_CONFIG), and the strategy keeps their variables the same.
Keras 3 gives the layers and the optimizer; its `fit` does not know this strategy, so the loop is
our own. After each epoch all ranks report, and rank 0 adds a checkpoint; when the run starts
again, training resumes from the last one.
"""

import os
import sys
import tempfile

import keras
import numpy as np
import ray.train
import tensorflow as tf
from sklearn.datasets import load_digits


def train_func(config):
    """config: epochs, lr, batch_size (per worker)."""
    tf.config.threading.set_intra_op_parallelism_threads(1)  # a model this small gains nothing from more
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = build_model()
        optimizer = keras.optimizers.Adam(config.get("lr", 0.003))
        optimizer.build(model.trainable_variables)
    first_epoch = resume(model, optimizer)
    step = build_step(strategy, model, optimizer)

    (images, labels), held_out = split_digits()
    batch = config.get("batch_size", 32)
    steps = len(images) // size // batch
    images, labels = images[rank::size], labels[rank::size]  # this worker's rows
    for epoch in range(first_epoch, config.get("epochs", 10)):
        order = np.random.default_rng(epoch).permutation(steps * batch).reshape(steps, batch)
        loss = float(np.mean([float(step(images[rows], labels[rows])) for rows in order]))
        accuracy = measure_accuracy(model, held_out)
        print(f"epoch {epoch} rank {rank} loss {loss:.4f} accuracy {accuracy:.4f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(model, optimizer, epoch, folder) if rank == 0 else None
            ray.train.report({"epoch": epoch, "loss": loss, "accuracy": accuracy}, checkpoint=checkpoint)


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images, labels = np.float32(digits.data / 16), np.int64(digits.target)
    order = np.random.default_rng(0).permutation(len(labels))
    held_out, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[held_out], labels[held_out])


def build_model():
    layers = [keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
    return keras.Sequential(layers)


def build_step(strategy, model, optimizer):
    """A function that takes this worker's batch, and returns the mean loss of all workers."""

    def run_replica(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    @tf.function
    def step(images, labels):
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(run_replica, args=(images, labels)), axis=None)

    return lambda images, labels: step(tf.constant(images), tf.constant(labels))


def measure_accuracy(model, held_out):
    images, labels = held_out
    return float((np.asarray(model(images)).argmax(axis=1) == labels).mean())


def save(model, optimizer, epoch, folder):
    model.save_weights(os.path.join(folder, "model.weights.h5"))
    state = {f"v{i}": variable.numpy() for i, variable in enumerate(optimizer.variables)}
    np.savez(os.path.join(folder, "state.npz"), epoch=epoch, **state)
    return ray.train.Checkpoint.from_directory(folder)


def resume(model, optimizer):
    """Loads the run's last checkpoint, if there is one, and returns the epoch to begin with."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        model.load_weights(os.path.join(folder, "model.weights.h5"))
        state = np.load(os.path.join(folder, "state.npz"))
        for i, variable in enumerate(optimizer.variables):
            variable.assign(state[f"v{i}"])
        return int(state["epoch"]) + 1


def measure(folder):
    """Accuracy of a checkpoint's model on the held-out digits: `python digits_tensorflow.py FOLDER`."""
    model = build_model()
    model.load_weights(os.path.join(folder, "model.weights.h5"))
    return measure_accuracy(model, split_digits()[1])


if __name__ == "__main__":
    print(measure(sys.argv[1]))
