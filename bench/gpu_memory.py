"""Memory use and name of a GPU, from nvidia-smi."""

import subprocess
import threading


class DeviceMemory:
    """Growth of the whole GPU's memory use inside a with block, from nvidia-smi; peak_mb is None if it is
    not available. Polled once per second, because the peak of a training run lasts until its end."""

    def __init__(self, gpu):
        self.command = ["nvidia-smi", "-i", gpu, "--query-gpu=memory.used",
                        "--format=csv,noheader,nounits"]
        self.peak_mb = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def used_mb(self):
        try:
            answer = subprocess.run(self.command, capture_output=True, text=True, timeout=20)
            return float(answer.stdout.split()[0])
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
            return None

    def watch(self):
        while not self.done.wait(1):
            now = self.used_mb()
            if now is not None:
                self.peak_mb = max(self.peak_mb or 0, now - self.before)

    def __enter__(self):
        self.before = self.used_mb()
        if self.before is not None:
            self.thread.start()
        return self

    def __exit__(self, *exception):
        self.done.set()
        if self.before is not None:
            self.thread.join()


def gpu_name(gpu):
    try:
        answer = subprocess.run(["nvidia-smi", "-i", gpu, "--query-gpu=name,driver_version",
                                 "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown GPU"
    return answer.stdout.strip() if answer.returncode == 0 else "unknown GPU"
