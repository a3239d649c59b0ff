# Comparisons with peers, run by hand: see the head of each program.
noinst_PROGRAMS += bench/overhead
bench_overhead_SOURCES = bench/overhead.c
bench_overhead_LDADD = libstarstep.la $(DEPENDENCY_LIBS)

EXTRA_DIST += \
	bench/cpu_vs_pytorch \
	bench/compare.py \
	bench/gpu_vs_pytorch \
	bench/pytorch_cpu.py \
	bench/pytorch_gpu.py
