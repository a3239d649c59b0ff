#include "layers/list.h"

#define ADDRESS(name) &ss_##name##_class,
const struct ss_layer_class *const ss_layer_classes[] = {SS_LAYER_CLASSES(ADDRESS) NULL};
