# The GPU that is emulated on the CPU (configure --enable-hostgpu). It becomes part of libstarstep, so that
# its cuda* functions come before those of the libraries that StarPU brings in.
if HOSTGPU
noinst_LTLIBRARIES += libhostgpu.la
libhostgpu_la_SOURCES = \
	tests/hostgpu/hostgpu.h tests/hostgpu/device.h \
	tests/hostgpu/device.cpp tests/hostgpu/streams.cpp tests/hostgpu/memory.cpp \
	tests/hostgpu/cudart.cpp tests/hostgpu/cublaslt.cpp \
	tests/hostgpu/cudnn.cpp tests/hostgpu/cudnn_backend.cpp tests/hostgpu/cudnn_conv.cpp \
	tests/hostgpu/cudnn_internal.h
if HAVE_NCCL
libhostgpu_la_SOURCES += \
	tests/hostgpu/nccl_internal.h tests/hostgpu/nccl.cpp tests/hostgpu/nccl_board.cpp \
	tests/hostgpu/nccl_collective.cpp tests/hostgpu/nccl_fault.cpp tests/hostgpu/nccl_memory.cpp \
	tests/hostgpu/nccl_sum.cpp
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

EXTRA_DIST += tests/hostgpu/README.md
