# Job scripts: their Slurm options, and runs in a real Slurm with virtual nodes
TESTS += tests/slurm/test_slurm_scripts.sh
TESTS += tests/slurm/test_slurm.sh
