# Job scripts: what they hand to Slurm, and a real Slurm of virtual nodes; what is installed
TESTS += tests/test_slurm_scripts.sh tests/test_install.sh
if HAVE_DNNL
TESTS += tests/test_slurm.sh
endif
EXTRA_DIST += tests/slurm_cluster.sh tests/test_slurm_scripts.sh tests/test_slurm.sh tests/test_slurm_gpu.sh \
	tests/test_install.sh tests/container_chroot.sh

# Only where GPUs are emulated
GPU_TESTS += tests/test_slurm_gpu.sh
