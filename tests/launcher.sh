# shellcheck shell=sh
# launcher.sh: settings of mpiexec for tests. Shell tests source it, compiled.sh does so for the others.
#
# Permit root and more ranks than cores in Open MPI: version 4 reads OMPI_*, version 5 PRTE_*. Other MPI libraries
# ignore these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
# Version 5 with libnl warns if a machine's address is not reachable from itself.
export OMPI_MCA_reachable=weighted
