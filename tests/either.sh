#!/usr/bin/env bash
# either.sh COMMAND... or COMMAND...: rank 0 executes the first, all others the second. Replaces mpiexec's ":", which
# crashes mpiexec of Debian 13 (Open MPI 5.0.7) with a segmentation fault.
for ((n = 1; n < $#; n++)); do
    [ "${!n}" != or ] || break
done
if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:?no rank of MPI}}}" -eq 0 ]; then
    exec "${@:1:n-1}"
fi
exec "${@:n+1}"
