"""Handwritten digits with JAX: one program on the devices of all workers.

The data is scikit-learn's bundled set of 1,797 images, so nothing is downloaded. The batch is
one array that is spread over all workers' devices, so `jax.jit` computes the gradient of the
whole batch and the parameters stay the same everywhere. After each epoch all ranks report, and
rank 0 adds a checkpoint; when the run starts again, training resumes from the last one.
"""

import os
import socket
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import ray.train
import ray.train.collective
import ray.util
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits


def train_func(config):
    """config: epochs, lr, batch_size (of all workers together)."""
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    join(rank, size)
    mesh = Mesh(jax.devices(), ("batch",))
    by_rows, copied = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    (images, labels), held_out = split_digits()
    first_epoch, parameters = resume()
    parameters = jax.device_put(parameters, copied)

    batch = config.get("batch_size", 64) // size
    steps = len(images) // size // batch
    images, labels = images[rank::size], labels[rank::size]  # this worker's rows
    for epoch in range(first_epoch, config.get("epochs", 10)):
        order = np.random.default_rng(epoch).permutation(steps * batch).reshape(steps, batch)
        losses = []
        for rows in order:
            whole = [jax.make_array_from_process_local_data(by_rows, part[rows]) for part in (images, labels)]
            parameters, loss = step(parameters, *whole, config.get("lr", 0.5))
            losses.append(float(loss))
        here = jax.tree.map(np.asarray, parameters)
        metrics = {"epoch": epoch, "loss": float(np.mean(losses)), "accuracy": measure_accuracy(here, held_out)}
        print(f"epoch {epoch} rank {rank} of {jax.process_count()}", metrics, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = save(here, epoch, folder) if rank == 0 else None
            ray.train.report(metrics, checkpoint=checkpoint)
    jax.distributed.shutdown()


def join(rank, size):
    """JaxTrainer makes the workers one group on GPUs and TPUs; on CPUs it leaves that to us."""
    if jax.distributed.is_initialized() or size == 1:
        return
    address = None
    if rank == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            address = f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"
    address = ray.train.collective.broadcast_from_rank_zero(address)
    jax.distributed.initialize(address, num_processes=size, process_id=rank)


def split_digits():
    """1,437 images to learn from and 360 held out, the same on every worker."""
    digits = load_digits()
    images, labels = np.float32(digits.data / 16), np.int32(digits.target)
    order = np.random.default_rng(0).permutation(len(labels))
    held_out, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[held_out], labels[held_out])


def build_parameters():
    """Two layers, the same on every worker."""
    random = np.random.default_rng(0)
    return [
        {
            "w": np.float32(random.normal(scale=rows**-0.5, size=(rows, columns))),
            "b": np.zeros(columns, np.float32),
        }
        for rows, columns in ((64, 128), (128, 10))
    ]


def predict(parameters, images):
    first, second = parameters
    return jax.nn.relu(images @ first["w"] + first["b"]) @ second["w"] + second["b"]


@jax.jit
def step(parameters, images, labels, lr):
    """One step of gradient descent: the new parameters and the loss."""

    def compute_loss(parameters):
        chances = jax.nn.log_softmax(predict(parameters, images))
        return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()

    loss, gradients = jax.value_and_grad(compute_loss)(parameters)
    return jax.tree.map(lambda value, gradient: value - lr * gradient, parameters, gradients), loss


def measure_accuracy(parameters, held_out):
    images, labels = held_out
    return float(np.mean(np.asarray(predict(parameters, images)).argmax(axis=1) == labels))


def save(parameters, epoch, folder):
    first, second = parameters
    arrays = {"w1": first["w"], "b1": first["b"], "w2": second["w"], "b2": second["b"]}
    np.savez(os.path.join(folder, "state.npz"), epoch=epoch, **arrays)
    return ray.train.Checkpoint.from_directory(folder)


def load(folder):
    """The epoch to resume with, and the parameters."""
    state = np.load(os.path.join(folder, "state.npz"))
    parameters = [{"w": state["w1"], "b": state["b1"]}, {"w": state["w2"], "b": state["b2"]}]
    return int(state["epoch"]) + 1, parameters


def resume():
    """As `load`, from the run's last checkpoint; without one the first epoch and new parameters."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, build_parameters()
    with checkpoint.as_directory() as folder:
        return load(folder)


def measure(folder):
    """Accuracy of a checkpoint's parameters on the held-out digits: `python digits_jax.py FOLDER`."""
    return measure_accuracy(load(folder)[1], split_digits()[1])


if __name__ == "__main__":
    print(measure(sys.argv[1]))
