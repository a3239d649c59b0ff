libstarstep_la_SOURCES += \
	src/comm/comm.c src/comm/comm.h src/comm/comm_ops.h \
	src/comm/comm_check.c \
	src/comm/comm_self.c \
	src/comm/comm_watch.c src/comm/comm_watch.h

if HAVE_MPI
libstarstep_la_SOURCES += \
	src/comm/comm_guard.c src/comm/comm_guard.h \
	src/comm/comm_mpi.c src/comm/comm_mpi.h \
	src/comm/comm_mpi_beats.c \
	src/comm/comm_mpi_sum.c src/comm/comm_mpi_sum.h \
	src/comm/comm_mpi_thread.c src/comm/comm_mpi_thread.h
endif
