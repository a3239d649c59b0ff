# Benchmarks and comparisons with other frameworks, run manually; see the head of each program.
noinst_PROGRAMS += bench/overhead bench/loader bench/slow_rank
bench_overhead_SOURCES = bench/overhead.c
bench_overhead_LDADD = libinside.la $(DEPENDENCY_LIBS)
bench_loader_SOURCES = bench/loader.c
bench_loader_LDADD = libinside.la $(DEPENDENCY_LIBS)
bench_slow_rank_SOURCES = bench/slow_rank.c
bench_slow_rank_LDADD = libinside.la $(DEPENDENCY_LIBS)
noinst_PROGRAMS += bench/conv
bench_conv_SOURCES = bench/conv.c
bench_conv_LDADD = libinside.la $(DEPENDENCY_LIBS)
if HAVE_CUDA
noinst_PROGRAMS += bench/gpu_kernels
bench_gpu_kernels_SOURCES = bench/gpu_kernels.c bench/gpu_timed.cpp bench/gpu_timed.h
bench_gpu_kernels_LDADD = libinside.la $(DEPENDENCY_LIBS)
endif
if HAVE_MPI
noinst_PROGRAMS += bench/comm_all_reduce
bench_comm_all_reduce_SOURCES = bench/comm_all_reduce.c
bench_comm_all_reduce_LDADD = libinside.la $(DEPENDENCY_LIBS)
endif

EXTRA_DIST += \
	bench/straggler \
	bench/comm_speed \
	bench/compare.py \
	bench/cpu_vs_pytorch \
	bench/from_fp64 \
	bench/gpu_memory.py \
	bench/gpu_order bench/gpu_host \
	bench/gpu_report.py \
	bench/gpu_vs_pytorch \
	bench/large_batch \
	bench/link_hosts.py \
	bench/link_trace.py \
	bench/loader_vs_pytorch \
	bench/photos.py \
	bench/pytorch_cpu.py \
	bench/pytorch_ddp.py \
	bench/pytorch_gpu.py \
	bench/pytorch_loader.py \
	bench/shard_memory \
	bench/slow_link \
	bench/trace_cost \
	bench/variables
