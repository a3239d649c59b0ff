# Job scripts. Installed ones find the program in the installation's bin/ (program.sh); site.conf is a template.
slurmdir = $(pkgdatadir)/slurm
dist_slurm_SCRIPTS = slurm/1gpu.sh slurm/2gpu.sh slurm/4gpu.sh slurm/8gpu.sh \
	slurm/1node.sh slurm/2node.sh slurm/4node.sh slurm/8node.sh \
	slurm/cpu.sh slurm/trace.sh slurm/scaling.sh slurm/sweep.sh slurm/tune.sh
dist_slurm_DATA = slurm/env.sh slurm/fabric.sh slurm/job.sh slurm/launch.sh slurm/program.sh slurm/rank.sh \
	slurm/stage.sh slurm/submit.sh slurm/site.conf
slurmsitesdir = $(slurmdir)/sites
dist_slurmsites_DATA = slurm/sites/gh200-slingshot.conf slurm/sites/infiniband-a100-v100.conf
slurmcontainerdir = $(slurmdir)/container
dist_slurmcontainer_SCRIPTS = slurm/container/build.sh
dist_slurmcontainer_DATA = slurm/container/starstep.def
