libstarstep_la_SOURCES += \
	graphs/models.c graphs/models.h graphs/model.h \
	graphs/resnet.c \
	graphs/vgg.c \
	graphs/wideresnet.c
# Recipes for the models: train --recipe FILE
recipesdir = $(pkgdatadir)/recipes
dist_recipes_DATA = graphs/recipes/wideresnet-guide.json graphs/recipes/wideresnet-ddp-guide.json graphs/recipes/wideresnet-accuracy.json \
	graphs/recipes/resnet50-tinyimagenet-guide.json graphs/recipes/resnet50-90-epochs.json \
	graphs/recipes/resnet50-large-batch.json
