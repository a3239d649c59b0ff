# shellcheck shell=sh
# launcher.sh: what mpiexec is told in tests; those in shell source it, and compiled.sh does for the others.
#
# Open MPI refuses root and more ranks than cores unless told so: version 4 reads OMPI_*, 5 of such names PRTE_*. Others
# ignore these variables.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
# Version 5 with libnl complains where a machine's address is not reachable from itself.
export OMPI_MCA_reachable=weighted
