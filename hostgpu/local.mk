# GPU emulation on the CPU (configure --enable-hostgpu). It is part of libstarstep, so that its cuda*
# functions precede those of the libraries that StarPU depends on.
if HOSTGPU
noinst_LTLIBRARIES += libhostgpu.la
libhostgpu_la_SOURCES = \
	hostgpu/hostgpu.h hostgpu/devices.h hostgpu/device.h \
	hostgpu/streams_internal.h \
	hostgpu/device.cpp hostgpu/streams.cpp hostgpu/graphs.cpp hostgpu/memory.cpp \
	hostgpu/timed.cpp hostgpu/cudart.cpp hostgpu/cublaslt.cpp \
	hostgpu/cudnn.cpp hostgpu/cudnn_conv.cpp \
	hostgpu/cudnn_internal.h
if HAVE_NCCL
libhostgpu_la_SOURCES += \
	hostgpu/nccl_internal.h hostgpu/nccl.cpp hostgpu/nccl_board.cpp \
	hostgpu/nccl_collective.cpp hostgpu/nccl_fault.cpp hostgpu/nccl_memory.cpp \
	hostgpu/nccl_all_reduce.cpp
endif
libstarstep_la_LIBADD += libhostgpu.la

# For tests only, so it cannot be installed.
NO_INSTALL = @echo "this build emulates the GPU (--enable-hostgpu) for tests and cannot be installed" >&2; exit 1
install-am:
	$(NO_INSTALL)
install-exec-am:
	$(NO_INSTALL)
install-data-am:
	$(NO_INSTALL)
endif

EXTRA_DIST += hostgpu/README.md hostgpu/devices.h
