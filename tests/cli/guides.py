"""guides.py DOC SITE RECIPES: checks that the commands in the section "Whole runs, side by side" of DOC, and the
recipes of the guides in the folder RECIPES, have the training options of the guides. SITE: the lines of TRAIN and
GPU_TRAIN of a site; standard input: starstep train --help table, for the defaults. The commands and optimizer calls of
the guides are quoted here."""

import argparse
import json
import re
import shlex
import sys
from types import SimpleNamespace


def SGD(params, lr, momentum=0, weight_decay=0):  # the defaults of PyTorch
    return {"base-lr": lr, "momentum": momentum, "weight-decay": weight_decay}


def StepLR(optimizer, step_size, gamma=0.1):
    return {"lr-step": step_size, "lr-gamma": gamma}


def cifar(parser):
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--base-lr", type=float)
    parser.add_argument("--target-accuracy", type=float)
    parser.add_argument("--patience", type=int)


def imagenet(parser):
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--num-workers", type=int, default=4)


# In the order of DOC: parser, command, optimizer, ranks, whether it uses autocast
optimizer, model = None, SimpleNamespace(parameters=lambda: None)
alone = lambda args: SGD(model.parameters(), lr=args.base_lr)
with_decay = lambda args: SGD(model.parameters(), lr=args.base_lr, momentum=0.9, weight_decay=5e-4)
of_args = lambda args: {
    **SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay),
    **StepLR(optimizer, step_size=30, gamma=0.1),
}
on_imagenet = "train.py --epochs=3 --num-workers=8 --lr=0.001 --batch-size=512"
guides = [
    (cifar, "train.py --batch-size 256 --epochs 100 --base-lr 0.01 --target-accuracy 0.95 --patience 2", alone, 1, False),
    (cifar, "OLDER --batch-size 32 --epochs 100 --base-lr 0.01 --target-accuracy 0.95 --patience 2", alone, 1, False),
    (cifar, "train_ddp.py --batch-size 1024 --epochs 100 --base-lr 0.04 --target-accuracy 0.95 --patience 2", with_decay, 4, True),
    (cifar, "singlenode.py --batch-size 1024 --epochs 100 --base-lr 0.04 --target-accuracy 0.95 --patience 2", with_decay, 4, True),
    (cifar, "train_ddp.py --epochs 100 --batch-size 2048 --base-lr 0.04 --target-accuracy 0.95 --patience 2", with_decay, 8, True),
    (imagenet, on_imagenet, of_args, 2, True),
    (imagenet, on_imagenet, of_args, 1, True),  # one run of the sweep is sufficient
]


def theirs(add, command, optimize, ranks, autocast):
    parser = argparse.ArgumentParser()
    add(parser)
    args = parser.parse_args(shlex.split(command)[1:])
    # The DataLoader of the CIFAR scripts has drop_last=True, that of the other one does not.
    run = {"no-drop-last": add is imagenet, "lr-step": 0, "epochs": args.epochs, "precision": "fp16" if autocast else "fp32", **optimize(args)}
    if add is cifar:
        return {**run, "batch": args.batch_size, "target-accuracy": args.target_accuracy, "patience": args.patience}
    return {**run, "batch": args.batch_size * ranks, "early stop": False}


def ours(command, defaults, site):
    words = shlex.split(command)
    ranks = int(words[3]) if words[1] == "launch" else {"slurm/2node.sh": 8}.get(words[0], 1)
    given = dict(defaults)
    words = (site if words[0].startswith("slurm/") else []) + words
    for word, value in zip(words, words[1:]):
        if word in ("--batch-size", "--per-rank-batch-size"):
            given["batch"] = int(value) * (ranks if word == "--per-rank-batch-size" else 1)
        elif word.startswith("--"):
            given[word[2:]] = value if word == "--precision" else number(value)
    given["no-drop-last"] = "--no-drop-last" in words
    given["early stop"] = given["target-accuracy"] <= 1
    return given


def number(text):
    return float(text) if re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", text) else text


def differ(command, want, have):
    for name in want:
        if have.get(name) != want[name]:
            print(f"{re.sub(' +', ' ', command)}: {name} is {have.get(name)}, the guide's {want[name]}")
    return any(have.get(name) != want[name] for name in want)


doc, site = open(sys.argv[1]).read(), sys.argv[2].split("\n")
part = doc.split("## Whole runs, side by side")[1].split("\n## ")[0].replace("\\\n", " ")
said = re.sub(r"\s+", " ", part)
commands = [line for block in re.findall(r"```sh\n(.*?)```", part, re.S) for line in block.split("\n")]
commands = [c for c in commands if " train " in c or c.startswith("slurm/")]
defaults = {"lr-step": 0}  # printed as "never" in the help
for line in sys.stdin:
    name, _, _, value, *_ = line.split("\t")
    of_sgd = re.search(r"\bsgd\S* ([^ ,]+)", value)  # "sgd 5e-4, adam 0"
    defaults.setdefault(name[2:], number(of_sgd[1] if of_sgd else value))
wrong = len(commands) != len(guides)
if wrong:
    print(f"{len(commands)} commands in {sys.argv[1]}, but {len(guides)} in the guides")
for guide, command in zip(guides, commands):
    want, have = theirs(*guide), ours(command, defaults, site)
    if not guide[1].startswith("OLDER") and guide[1] not in said:
        print(f"{sys.argv[1]} does not contain the guide's command: {guide[1]}")
        wrong = True
    wrong |= differ(command, want, have)
# Recipes do not set the precision and the number of ranks.
for recipe, k in ("wideresnet-guide", 0), ("wideresnet-ddp-guide", 2), ("resnet50-tinyimagenet-guide", 6):
    options = json.load(open(f"{sys.argv[3]}/{recipe}.json"))
    want = {**theirs(*guides[k]), "precision": "fp32"}
    wrong |= differ(recipe, want, ours("starstep train " + " ".join(f"--{o} {v}" for o, v in options.items()), defaults, site))
sys.exit(wrong)
