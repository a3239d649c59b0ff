# The GPU bundle: a folder that runs the GPU checks and benchmarks on another machine, which needs only NVIDIA's driver
# and libraries. It is built separately, without MPI and oneDNN, which that machine may not have. BUNDLE_FLAGS are
# additional arguments of configure, such as --with-onednn=yes.
EXTRA_DIST += tools/nvcc-pic tools/gpu-bundle tools/bundle-program tools/run-gpu-checks tools/gpu-first-call
CLEAN_DIRS += gpu-bundle gpu-bundle.build

gpu-bundle:
	$(MKDIR_P) gpu-bundle.build
	cd gpu-bundle.build && { test -e Makefile || $(SHELL) $(abs_top_srcdir)/configure --srcdir=$(abs_top_srcdir) \
	  $(AM_DISTCHECK_CONFIGURE_FLAGS) --without-mpi --without-onednn $(BUNDLE_FLAGS); }
	cd gpu-bundle.build && $(MAKE) $(AM_MAKEFLAGS) && $(MAKE) $(AM_MAKEFLAGS) check TESTS=
	cd gpu-bundle.build && $(MAKE) $(AM_MAKEFLAGS) gpu-bundle-folder

BUNDLE = ../gpu-bundle
gpu-bundle-folder:
	bash $(srcdir)/tools/gpu-bundle $(srcdir) . $(BUNDLE) $(GPU_TESTS)

# Patches of StarPU, for quickstart
EXTRA_DIST += tools/packaging/starpu/README.md tools/packaging/starpu/0001-cuda-computeMode.patch \
	tools/packaging/starpu/0002-bus-calibrate-never.patch tools/packaging/starpu/0003-cuda-error-handler.patch \
	tools/packaging/starpu/0004-installation-without-samples.patch tools/packaging/starpu/0005-fxt-quote-names.patch

# The man page's options and the shell completions, generated from the program's tables. `make manual` updates the files
# in the source folder, so that a build does not have to run the program.
completion = $(srcdir)/tools/completion
EXTRA_DIST += tools/manual tools/completion/table tools/completion/options.tsv tools/completion/completion.bash \
	tools/completion/completion.zsh
manual: starstep
	$(srcdir)/tools/manual ./starstep $(srcdir)/docs/starstep.1 >starstep.1.new
	mv starstep.1.new $(srcdir)/docs/starstep.1
	$(completion)/table ./starstep >options.tsv.new
	mv options.tsv.new $(completion)/options.tsv
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = tools/completion/bash/starstep
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = tools/completion/zsh/_starstep
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA)
tools/completion/bash/starstep: tools/completion/completion.bash tools/completion/options.tsv
	$(MKDIR_P) $(@D)
	sed -e '/^@TABLE@$$/{r $(completion)/options.tsv' -e 'd;}' $(completion)/completion.bash >$@
tools/completion/zsh/_starstep: tools/completion/completion.zsh tools/completion/options.tsv
	$(MKDIR_P) $(@D)
	sed -e '/^@TABLE@$$/{r $(completion)/options.tsv' -e 'd;}' $(completion)/completion.zsh >$@
.PHONY: gpu-bundle gpu-bundle-folder manual

# Installed for users of PyTorch.
toolsdir = $(pkgdatadir)/tools
dist_tools_SCRIPTS = tools/optimizer_state.py
# Programs; the exporter also under a name that Python can import as a module
dist_bin_SCRIPTS = tools/starstep-from-pytorch tools/starstep-convert
dist_tools_SCRIPTS += tools/starstep_from_pytorch.py
