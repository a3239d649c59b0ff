#!/usr/bin/env python3
"""One rank of the guides' training loop with PyTorch's DistributedDataParallel over Gloo, one thread:
the peer of slow_link. With --ranks 1, the same loop without DistributedDataParallel.

Rank 0 prints one line of JSON: the mean step time from the end of step WARMUP to the end of the last step.
The data are in memory, as in pytorch_cpu.py.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pytorch_cpu import Batches, build, read


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--width", required=True)
    parser.add_argument("--batch-size", type=int, default=32, help="per rank")
    parser.add_argument("--format", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--meet", help="tcp://ADDRESS:PORT of rank 0")
    parser.add_argument("--bucket-mb", type=float, default=25)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1 + args.rank)
    memory_format = (torch.channels_last if args.format == "channels_last"
                     else torch.contiguous_format)
    model = build("wideresnet", [int(w) for w in args.width.split(",")], 0)
    model = model.to(memory_format=memory_format)
    if args.ranks > 1:
        dist.init_process_group("gloo", init_method=args.meet, rank=args.rank, world_size=args.ranks)
        model = DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss_fn = nn.CrossEntropyLoss()
    batches = iter(Batches(read(args.data_dir, "train", 0), args.batch_size, memory_format))

    model.train()
    done = []
    for _ in range(args.warmup + args.steps):
        images, labels = next(batches)
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done.append(time.perf_counter())
    if args.rank == 0:
        print(json.dumps({"step_ms": (done[-1] - done[args.warmup - 1]) * 1000 / args.steps,
                          "loss": loss.item(), "torch": torch.__version__}))
    if args.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
