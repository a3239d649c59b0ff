"""torchvision's model families for 32x32 images, large ones with narrow widths, and initial weights computed by a
formula, the same as in tests/parity/formula_weights.c."""

import functools
import math

import numpy as np
import torch
from torch import nn
from torchvision import models
from torchvision.models import convnext, resnet, vgg
from torchvision.ops import StochasticDepth

CLASSES = 100


def narrow_resnet(block, blocks, widths, **options):
    """A ResNet without the stem's max pooling, because the images are small."""
    model = resnet.ResNet(block, blocks, num_classes=CLASSES, **options)
    model.maxpool = nn.Identity()
    model.conv1 = nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(widths[0])
    model.inplanes = widths[0]
    for stage, (width, count) in enumerate(zip(widths, blocks), 1):
        setattr(model, f"layer{stage}", model._make_layer(block, width, count, stride=1 if stage == 1 else 2))
    model.fc = nn.Linear(widths[-1] * block.expansion, CLASSES)
    return model


def narrow_vgg(layers, batch_norm):
    """A VGG; its adaptive pooling enlarges the 1x1 map to 7x7."""
    model = vgg.VGG(vgg.make_layers(layers, batch_norm), num_classes=CLASSES, init_weights=False)
    model.classifier[0] = nn.Linear(24 * 49, 60)
    model.classifier[3] = nn.Linear(60, 60)
    model.classifier[6] = nn.Linear(60, CLASSES)
    return model


def alexnet():
    """An AlexNet; the stride of its first convolution is 1, because the images are small."""
    model = models.alexnet(num_classes=CLASSES)
    for index, (a, b) in {0: (3, 12), 3: (12, 24), 6: (24, 30), 8: (30, 24), 10: (24, 20)}.items():
        old = model.features[index]
        model.features[index] = nn.Conv2d(a, b, old.kernel_size, 1, old.padding)
    model.classifier[1] = nn.Linear(20 * 36, 60)
    model.classifier[4] = nn.Linear(60, 60)
    model.classifier[6] = nn.Linear(60, CLASSES)
    return model


def convnext_tiny():
    widths, depths = (12, 24, 40, 56), (2, 2, 3, 2)
    settings = [convnext.CNBlockConfig(a, b, n) for a, b, n in zip(widths, (*widths[1:], None), depths)]
    return convnext.ConvNeXt(settings, stochastic_depth_prob=0.1, num_classes=CLASSES)


M = "M"
FAMILIES = {
    "resnet18": lambda: narrow_resnet(resnet.BasicBlock, (2, 2, 2, 2), (16, 20, 32, 40)),
    "resnext50": lambda: narrow_resnet(resnet.Bottleneck, (3, 4, 6, 3), (16, 24, 32, 40), groups=8, width_per_group=16),
    "wide_resnet50_2": lambda: narrow_resnet(resnet.Bottleneck, (3, 4, 6, 3), (8, 12, 16, 20), width_per_group=128),
    "vgg16": lambda: narrow_vgg([8, 8, M, 12, 12, M, 16, 16, 16, M, 20, 20, 20, M, 24, 24, 24, M], False),
    "vgg11_bn": lambda: narrow_vgg([8, M, 12, M, 16, 16, M, 20, 20, M, 24, 24, M], True),
    "alexnet": alexnet,
    "squeezenet1_1": lambda: models.squeezenet1_1(num_classes=CLASSES),
    "googlenet": lambda: models.googlenet(num_classes=CLASSES, aux_logits=False, init_weights=True),
    "densenet121": lambda: models.DenseNet(8, (6, 12, 24, 16), 16, num_classes=CLASSES),
    "mobilenet_v2": lambda: models.mobilenet_v2(num_classes=CLASSES, width_mult=0.5),
    "mobilenet_v3_small": lambda: models.mobilenet_v3_small(num_classes=CLASSES),
    "efficientnet_b0": lambda: models.efficientnet_b0(num_classes=CLASSES),
    "regnet_x_400mf": lambda: models.regnet_x_400mf(num_classes=CLASSES),
    "regnet_y_400mf": lambda: models.regnet_y_400mf(num_classes=CLASSES),
    "mnasnet0_5": lambda: models.mnasnet0_5(num_classes=CLASSES),
    "shufflenet_v2_x0_5": lambda: models.shufflenet_v2_x0_5(num_classes=CLASSES),
    "convnext_tiny": convnext_tiny,
    "vit_b_16": lambda: models.VisionTransformer(32, 8, 3, 3, 48, 100, num_classes=CLASSES),
}


# Positive biases avoid dead channels. The next BatchNorm would amplify a channel with few tiny values, and rounding
# would determine the run.
CENTRES = {"weight": 1.0, "layer_scale": 1.0, "bias": 0.5}


def mix(z):
    """The finalizer of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def values(name, shape):
    """Returns uniform values around 0, with about the width of PyTorch's defaults; weights of norms are around 1."""
    n, fan_in = math.prod(shape), math.prod(shape[1:])
    key = functools.reduce(lambda h, c: (h ^ c) * 0x100000001B3 % 2**64, name.encode(), 0xCBF29CE484222325)
    bits = mix(np.uint64(key) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    u = bits.astype(np.float64) / 2**23 - 1
    if name.endswith(".running_mean"):
        centre, width = 0.0, 0.0
    elif name.endswith(".running_var"):
        centre, width = 1.0, 0.0
    elif fan_in > 1 and shape[0] > 1:
        centre, width = 0.0, math.sqrt(4.0 / fan_in)
    else:  # one value per channel, or the tokens of a transformer
        centre, width = next((c for end, c in CENTRES.items() if name.endswith(end)), 0.0), 0.1
    return torch.from_numpy((centre + width * u).astype(np.float32).reshape(shape))


def make(name):
    """Builds a family's model with weights of the formula; dropout and stochastic depth as in torchvision."""
    model = FAMILIES[name]()
    with np.errstate(over="ignore"):
        state = model.state_dict()  # its metadata is required by mnasnet
        for key, t in state.items():
            if t.dtype.is_floating_point:
                state[key] = values(key, tuple(t.shape))
    model.load_state_dict(state, strict=True)
    return model


def without_drops(model):
    for module in model.modules():
        if isinstance(module, (nn.Dropout, StochasticDepth)):
            module.p = 0.0
    return model
