"""guide_lines.py FORM LOG OUT: check that OUT equals, line by line, the output of a guide's script with the values of
the JSON log LOG. The print statements are copied from the guides. FORM is a value of --epoch-line."""

import json
import sys
from types import SimpleNamespace


def gpu(start, epochs, end, stop):
    args = SimpleNamespace(batch_size=start["batch"], epochs=EPOCHS)
    print(f"Training WideResNet on CIFAR-100 with Batch Size: {args.batch_size}")
    for e in epochs:
        epoch, epoch_time, v_loss, v_accuracy, images_per_sec = values(e)
        print(
            f"Epoch {epoch + 1}/{args.epochs}: Time={epoch_time:.3f}s, "
            f"Loss={v_loss:.4f}, Accuracy={v_accuracy:.4f}, "
            f"Throughput={images_per_sec:.1f} img/s"
        )
    if stop:
        print(f"Target accuracy reached. Early stopping after epoch {epoch + 1}.")
    total_time, throughput, val_accuracy = end["time"], end["images_per_s"], [end["val_accuracy"]]
    print(f"\nTraining complete. Final Accuracy: {val_accuracy[-1]:.4f}")
    print(f"Total Time: {total_time:.1f}s, Throughput: {throughput:.1f} img/s")


def older(start, epochs, end, stop):
    batch_size, total_time = start["batch"], 0
    print(f"Training WideResNet on CIFAR 100 with Batch Size: {batch_size}")
    for e in epochs:
        epoch, epoch_time, v_loss, v_accuracy, images_per_sec = values(e)
        total_time += epoch_time
        print(
            "Epoch = {:2d}: Epoch Time = {:5.3f}, Validation Loss = {:5.3f}, Validation Accuracy = {:5.3f}, Images/sec = {:5.3f}, Cumulative Time = {:5.3f}".format(
                epoch + 1, epoch_time, v_loss, v_accuracy, images_per_sec, total_time
            )
        )
    if stop:
        print("Early stopping after epoch {}".format(epoch + 1))
    total_time, throughput, val_accuracy = end["time"], end["images_per_s"], [end["val_accuracy"]]
    print("\nTraining complete. Final Validation Accuracy = {:5.3f}".format(val_accuracy[-1]))
    print("Total Training Time: {:5.3f} seconds".format(total_time))
    print("Throughput: {:5.3f} images/second".format(throughput))
    print(f"Single-GPU Thrpughput: {throughput:.3f} images/second")


def ddp(start, epochs, end, stop):
    args, world_size = SimpleNamespace(epochs=EPOCHS), start["ranks"]
    device_count = world_size // start["nodes"]
    print(f"Training started with {world_size} processes across {world_size // device_count} nodes.")
    print(f"Using {device_count} GPUs per node.")
    for e in epochs:
        epoch, epoch_time, v_loss, v_accuracy, images_per_sec = values(e)
        print(f"Epoch {epoch + 1}/{args.epochs} completed in {epoch_time:.3f} seconds")
        print(f"Validation Loss: {v_loss:.4f}, Validation Accuracy: {v_accuracy:.4f}")
        print(f"Epoch Throughput: {images_per_sec:.3f} images/second")
    if stop:
        print(f"Target accuracy reached. Early stopping after epoch {epoch + 1}.")
    total_time, throughput = end["time"], end["images_per_s"]
    print("\nTraining Summary:")
    print(f"Total training time: {total_time:.3f} seconds")
    print(f"Throughput: {throughput:.3f} images/second")
    print(f"Number of nodes: {world_size // device_count}")
    print(f"Number of GPUs per node: {device_count}")
    print(f"Total GPUs used: {world_size}")
    print("Training completed successfully.")


def values(e):
    return e["epoch"] - 1, e["time"], e["val_loss"], e["val_accuracy"], e["images_per_s"]


EPOCHS = 3
events = [json.loads(line) for line in open(sys.argv[2])]
start, *_ = (e for e in events if e["event"] == "start")
*_, end = (e for e in events if e["event"] == "end")
epochs = [e for e in events if e["event"] == "epoch"]
said, sys.stdout = sys.stdout, open(sys.argv[3] + ".want", "w")
{"guide-gpu": gpu, "guide-older": older, "guide-ddp": ddp}[sys.argv[1]](start, epochs, end, len(epochs) < EPOCHS)
sys.stdout.close()
want, got = open(sys.argv[3] + ".want").read(), open(sys.argv[3]).read()
said.write(f"{sys.argv[1]}: {len(want.splitlines())} lines\n" if want == got else f"want\n{want}\ngot\n{got}")
sys.exit(want != got)
