# The GPU that is emulated on the CPU (configure --enable-hostgpu). It becomes part of libstarstep, so that
# its cuda* functions come before those of the libraries that StarPU brings in.
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

# It cannot compute in earnest, so it is not installed.
NO_INSTALL = @echo "this build emulates its GPU (--enable-hostgpu), for tests: it is not installed" >&2; exit 1
install-am:
	$(NO_INSTALL)
install-exec-am:
	$(NO_INSTALL)
install-data-am:
	$(NO_INSTALL)
endif

EXTRA_DIST += hostgpu/README.md hostgpu/devices.h
