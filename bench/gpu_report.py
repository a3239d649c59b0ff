"""Report of gpu_vs_pytorch: medians, ratios and lower bounds of a case."""

import statistics
from collections import namedtuple

# width "": the model's default; image_size 0: CIFAR's 32
Model = namedtuple("Model", "width narrow_width image_size")
MODELS = {
    "wideresnet": Model("16,160,320,640", "16,32,64,128", 0),
    "resnet50": Model("", "16,32,64,128", 224),
}
# Lower bound for a step of the full model in 2-byte formats on an H200: matrix products at 790 TFLOP/s and
# memory at 4.3 TB/s, both measured there, and BN fused into adjacent layers. Reachable: with separate passes
# for the statistics of BN. The time is proportional to the batch.
Floor = namedtuple("Floor", "step_ms batch batches reachable_images_per_s")
FLOORS = {
    "wideresnet": Floor(6.2, 256, (256,), None),
    "resnet50": Floor(23.2, 256, (256, 512), 8100),
}
FLOOR_GPU = "H200"
LOADER_FIGURES = ["loader_images_per_s", "input_wait_s", "epoch_s"]  # of starstep's epoch


def median_of(results, key):
    values = [r[key] for r in results if r.get(key) is not None]
    return statistics.median(values) if values else None


def peak_of(results, key):
    values = [r[key] for r in results if r.get(key) is not None]
    return max(values) if values else None


def ratio_of(ours, theirs):
    """Returns the ratios of images/s by round, without rounds in which one of the programs failed."""
    ratios = [a["images_per_s"] / b["images_per_s"] for a, b in zip(ours, theirs)]
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def summarise(args, precision, results, profiles, failed):
    rows = {}
    for name, runs in results.items():
        if runs:
            rows[name] = {"images_per_s": median_of(runs, "images_per_s"),
                          "step_ms": median_of(runs, "step_ms"), "own_mb": peak_of(runs, "own_mb"),
                          "device_mb": peak_of(runs, "device_mb"),
                          "startup_s": next((r["startup_s"] for r in runs if r.get("startup_s")),
                                            None),
                          **{key: median_of(runs, key) for key in LOADER_FIGURES},
                          **profiles.get(name, {})}
    ours = [name for name in rows if name.startswith("starstep")]
    best = max(ours, key=lambda name: rows[name]["images_per_s"]) if ours else None
    for name in rows:
        if best and not name.startswith("starstep"):
            rows[name]["ratio"] = ratio_of(results[best], results[name])
    return {"model": args.model, "precision": precision, "width": args.width,
            "image_size": args.image_size, "batch": args.batch_size,
            "warmup_steps": args.warmup, "steps": args.steps, "rounds": args.rounds, "best": best,
            "programs": rows, "results": results, "failed": failed}


def floor_of(case):
    """Returns the lower bound of this case, or None."""
    floor, model = FLOORS[case["model"]], MODELS[case["model"]]
    if (case["precision"] in ("fp16", "bf16") and case["width"] == model.width
            and case["image_size"] == model.image_size and case["batch"] in floor.batches):
        return floor
    return None


def reason(why):
    """Returns the last line of a failure, which is the last message of the program."""
    return why.split("\n")[-1] or "no reason given"


def cell(value, width, digits):
    return f"{value:>{width}.{digits}f}" if value is not None else f"{'-':>{width}}"


def title(case):
    words = [case["precision"], f"widths {case['width'] or 'default'}", f"batch {case['batch']}"]
    if case["image_size"]:
        words = [case["model"], f"{case['image_size']}x{case['image_size']}", *words]
    return ", ".join(words)


def print_loader(case):
    for name, row in case["programs"].items():
        if row["input_wait_s"] is not None:
            print(f"{name}: loader speed {row['loader_images_per_s']:.0f} img/s; waited for input "
                  f"{row['input_wait_s']:.3f} s of {row['epoch_s']:.3f} s")


def print_floor(case, floor, gpu):
    where = "this GPU" if FLOOR_GPU in gpu else f"an {FLOOR_GPU}, not of this GPU"
    fastest = min(case["programs"], key=lambda name: case["programs"][name]["step_ms"], default=None)
    least = floor.step_ms * case["batch"] / floor.batch
    for name in {case["best"]: 0, fastest: 0}:
        if name:
            rate = case["programs"][name]["images_per_s"]
            step = case["batch"] * 1000 / rate
            reachable = floor.reachable_images_per_s
            print(f"{name}: {step:.2f} ms a step, {step / least:.2f} times the floor of {where} "
                  f"({least:.1f} ms)" + (f"; {100 * rate / reachable:.0f} % of the {reachable} img/s "
                                         "that are reachable there" if reachable else ""))


def print_predicted(case):
    predicted = case.get("predicted_step_ms")
    for name, row in case["programs"].items():
        if predicted and name.startswith("starstep"):
            print(f"{name}: predicted for one {case['predicted_for']}, no measurement: "
                  f"{predicted:.2f} ms a step; measured {row['step_ms']:.2f} ms, "
                  f"{row['step_ms'] / predicted:.2f} times that")


def print_case(case, gpu):
    print(f"\n{title(case)}")
    print(f"{'program':<30} {'img/s':>8} {'step ms':>8} {'idle ms':>8} {'own MB':>8} {'GPU MB':>8}"
          f" {'start s':>8}  {'starstep / it':<20}")
    for name, row in case["programs"].items():
        ratio = row.get("ratio")
        print(f"{name:<30} {row['images_per_s']:>8.0f} {row['step_ms']:>8.2f} "
              f"{cell(row.get('idle_ms'), 8, 3)} {cell(row['own_mb'], 8, 0)} "
              f"{cell(row['device_mb'], 8, 0)} {cell(row['startup_s'], 8, 1)}"
              + (f"  {ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})" if ratio
                 else ""))
    if case["image_size"]:
        print_loader(case)
    print_predicted(case)
    floor = floor_of(case)
    if floor:
        print_floor(case, floor, gpu)
    for name, why in case["failed"].items():
        print(f"{name}: FAILED: {reason(why)}")


SHORT = {"eager": "eager", "eager-cl": "channels_last", "compile-cl": "compile"}


def peer_of(case, peer):
    """Returns the peer's row with a batch on the device; if it was not measured, the row with a loader, or None."""
    for data in ("synthetic", "loader"):
        if f"PyTorch {peer} {data}" in case["programs"]:
            return case["programs"][f"PyTorch {peer} {data}"]
    return None


def startups(case):
    """Returns the startup times of starstep's first program, which may tune convolutions, and of its fastest one."""
    seconds = [row["startup_s"] for name, row in case["programs"].items()
               if name.startswith("starstep") and row["startup_s"]]
    return (seconds[0], min(seconds)) if seconds else (None, None)


def print_summary(cases):
    """Print one line per case: starstep's best program; images/s of each peer and starstep's speedup over it;
    seconds of startup, and memory of starstep and of compiled PyTorch."""
    print("\nSummary: images/s, predicted and measured, x: measured over PyTorch's; "
          "start-up seconds: the first time, later, compile; own MB: starstep, compile")
    print(f"{'model':<11}{'':<5}{'batch':>5} {'predicted':>9} {'starstep':>8}"
          + "".join(f" {name:>13}     x" for name in SHORT.values()) + f" {'start-up s':>18} {'own MB':>13}")
    for case in cases:
        best = case["programs"].get(case["best"])
        predicted = case.get("predicted_step_ms")
        line = (f"{case['model']:<11}{case['precision']:<5}{case['batch']:>5} "
                f"{cell(predicted and 1000 * case['batch'] / predicted, 9, 0)} "
                f"{cell(best and best['images_per_s'], 8, 0)}")
        for peer in SHORT:
            row = peer_of(case, peer)
            ratio = row and row.get("ratio")
            line += f" {cell(row and row['images_per_s'], 13, 0)} {cell(ratio and ratio['median'], 5, 2)}"
        compiled = peer_of(case, "compile-cl")
        for seconds in (*startups(case), compiled and compiled["startup_s"]):
            line += f" {cell(seconds, 5, 1)}"
        line += "".join(f" {cell(row and row['own_mb'], 6, 0)}" for row in (best, compiled))
        print(line)
        for name, why in case["failed"].items():
            print(f"  {name} failed: {reason(why)[:120]}")
