# Job scripts: what they hand to Slurm, and a real Slurm of virtual nodes
TESTS += tests/slurm/test_slurm_scripts.sh
TESTS += tests/slurm/test_slurm.sh
