libstarstep_la_SOURCES += \
	src/comm/comm.c src/comm/comm.h src/comm/comm_base.c src/comm/comm_base.h \
	src/comm/comm_check.c src/comm/consistency.c \
	src/comm/comm_clock.c \
	src/comm/comm_env.c src/comm/comm_env.h \
	src/comm/comm_interface.c src/comm/comm_interface.h \
	src/comm/call_timeout.c src/comm/call_timeout.h \
	src/comm/peer_death.c src/comm/peer_death.h \
	src/comm/comm_local.c src/comm/comm_local.h \
	src/comm/backoff.c src/comm/backoff.h \
	src/comm/comm_self.c \
	src/comm/stopped_ranks.c src/comm/stopped_ranks.h \
	src/comm/comm_tcp.c src/comm/comm_tcp.h \
	src/comm/comm_tcp_accept.c \
	src/comm/comm_tcp_collect.c \
	src/comm/tcp_handshake.c src/comm/tcp_handshake.h \
	src/comm/comm_tcp_end.c \
	src/comm/comm_tcp_frame.c \
	src/comm/comm_tcp_hello.c src/comm/comm_tcp_hello.h \
	src/comm/comm_tcp_join.c \
	src/comm/comm_tcp_listener.c \
	src/comm/comm_tcp_socket.c src/comm/comm_tcp_socket.h \
	src/comm/comm_tcp_thread.c \
	src/comm/comm_watch.c src/comm/comm_watch.h \
	src/comm/heartbeat.c

if HAVE_MPI
libstarstep_la_SOURCES += \
	src/comm/comm_mpi.c src/comm/comm_mpi.h \
	src/comm/comm_mpi_base.c \
	src/comm/mpi_heartbeat.c \
	src/comm/mpi_all_reduce.c src/comm/mpi_all_reduce.h \
	src/comm/mpi_progress.c \
	src/comm/comm_mpi_thread.c
endif

if HAVE_NCCL
libstarstep_la_SOURCES += \
	src/comm/nccl.c src/comm/nccl_internal.h \
	src/comm/nccl_watchdog.c \
	src/comm/nccl_base.c \
	src/comm/nccl_check.c \
	src/comm/nccl_memory.c \
	src/comm/nccl_all_reduce.c src/comm/nccl_thread.c
endif
libstarstep_la_SOURCES += src/comm/nccl.h
