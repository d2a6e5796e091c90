"""A small GPT with FSDP2 in bf16, for any number of GPUs, and with gloo where there are none.

Each worker holds a part of the weights and of the optimizer's state, and writes that part while training continues, as
often as that costs little. The parts are one checkpoint, from which a job with another number of workers can resume.
The text is the help that comes with Python, half a megabyte of English as bytes, so nothing is downloaded.
"""

import pydoc_data.topics

import ray.train.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from railhead import training
from railhead.training import dcp

HELD_OUT = 8192  # bytes at the end of the text


def train_func(config):
    """config: steps, every (as dcp.save takes it), batch (of all workers), lr, and those of build_model."""
    device = ray.train.torch.get_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)  # NCCL and FSDP use the current device
    rank, world = dist.get_rank(), dist.get_world_size()
    with torch.device("meta"):  # no worker ever has all weights
        model = build_model(config)
    # Weights travel and multiply in bf16. Gradients are summed in fp32, as are the optimizer's own weights and state.
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = init_device_mesh(device.type, (world,))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh, mp_policy=precision)
    model.to_empty(device=device)
    torch.manual_seed(0)
    model.apply(reset)
    now = Training(model, torch.optim.AdamW(model.parameters(), lr=config["lr"]))
    is_resumed = dcp.load({"training": now})
    print(f"rank {rank} of {world} on {device} begins at step {now.done}{' again' if is_resumed else ''}", flush=True)

    text = load_text().to(device)
    train, held_out = text[:-HELD_OUT], text[-HELD_OUT:]

    def measure_step():
        """Called when a save begins, on all workers in the same step."""
        with torch.no_grad():
            held_out_loss = measure_loss(model, split(held_out, config["context"])).item()
        return {"held_out_loss": held_out_loss, "step": now.done}

    while now.done < config["steps"]:
        batch = sample(train, config["batch"], config["context"], seed=now.done)[rank::world]
        loss = measure_loss(model, batch)
        loss.backward()
        now.optimizer.step()
        now.optimizer.zero_grad()
        now.done += 1
        training.progress(now.done, total=config["steps"], tokens=now.done * config["batch"] * config["context"])
        dcp.save({"training": now}, metrics=measure_step, every=config["every"])
    dcp.save({"training": now}, metrics=measure_step)  # the end


class Training:
    """Model, optimizer and the steps that are done: what a checkpoint contains."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.done = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "done": self.done}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.done = state["done"]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        heads = self.queries_keys_values(self.before_attention(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        queries, keys, values = heads.unbind(dim=2)
        seen = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.layers(self.before_layers(x))


class GPT(nn.Module):
    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.bytes, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, ids):
        x = self.bytes(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def build_model(config):
    return GPT(config["width"], config["layers"], config["heads"], config["context"])


def reset(module):
    """Gives the weights of one module their first values."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        module.reset_parameters()


def load_text():
    text = "\n".join(pydoc_data.topics.topics.values())
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()


def sample(text, count, length, *, seed):
    """The same sequences on each worker, of which it takes its share; one byte longer, for the last prediction."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - length - 1, (count, 1), generator=generator)
    return text[(starts + torch.arange(length + 1)).to(text.device)]


def split(text, length):
    """All of the text, in sequences that overlap by one byte."""
    return text.unfold(0, length + 1, length)


def measure_loss(model, sequences):
    """How many nats the next byte costs."""
    predicted = model(sequences[:, :-1])
    return nn.functional.cross_entropy(predicted.float().flatten(0, 1), sequences[:, 1:].flatten())
