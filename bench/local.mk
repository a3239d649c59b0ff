# Comparisons with peers, run by hand: see the head of each program.
EXTRA_DIST += \
	bench/cpu_vs_pytorch \
	bench/pytorch_cpu.py
