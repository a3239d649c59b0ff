libstarstep_la_SOURCES += \
	src/comm/comm.c src/comm/comm.h src/comm/comm_base.c src/comm/comm_base.h \
	src/comm/comm_check.c src/comm/comm_equal.c \
	src/comm/comm_clock.c \
	src/comm/comm_env.c src/comm/comm_env.h \
	src/comm/comm_interface.c src/comm/comm_interface.h \
	src/comm/comm_guard.c src/comm/comm_guard.h \
	src/comm/comm_neighbour.c src/comm/comm_neighbour.h \
	src/comm/comm_local.c src/comm/comm_local.h \
	src/comm/comm_pause.c src/comm/comm_pause.h \
	src/comm/comm_self.c \
	src/comm/comm_siblings.c src/comm/comm_siblings.h \
	src/comm/comm_tcp.c src/comm/comm_tcp.h \
	src/comm/comm_tcp_accept.c \
	src/comm/comm_tcp_collect.c \
	src/comm/comm_tcp_door.c src/comm/comm_tcp_door.h \
	src/comm/comm_tcp_end.c \
	src/comm/comm_tcp_frame.c \
	src/comm/comm_tcp_hello.c src/comm/comm_tcp_hello.h \
	src/comm/comm_tcp_join.c \
	src/comm/comm_tcp_listener.c \
	src/comm/comm_tcp_socket.c src/comm/comm_tcp_socket.h \
	src/comm/comm_tcp_thread.c \
	src/comm/comm_watch.c src/comm/comm_watch.h \
	src/comm/comm_watch_beat.c

if HAVE_MPI
libstarstep_la_SOURCES += \
	src/comm/comm_mpi.c src/comm/comm_mpi.h \
	src/comm/comm_mpi_base.c \
	src/comm/comm_mpi_beats.c \
	src/comm/comm_mpi_sum.c src/comm/comm_mpi_sum.h \
	src/comm/comm_mpi_test.c \
	src/comm/comm_mpi_thread.c
endif

if HAVE_NCCL
libstarstep_la_SOURCES += \
	src/comm/nccl.c src/comm/nccl_internal.h \
	src/comm/nccl_alone.c \
	src/comm/nccl_base.c \
	src/comm/nccl_check.c \
	src/comm/nccl_memory.c \
	src/comm/nccl_sum.c src/comm/nccl_calls.c
endif
libstarstep_la_SOURCES += src/comm/nccl.h
