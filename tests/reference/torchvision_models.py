"""torchvision's ResNet-50 and VGG-11 with BatchNorm, with channel widths as arguments.

Built from torchvision's own modules, so that tests compare with torchvision. With the default widths, names,
shapes and results are those of torchvision.models.resnet50() and vgg11_bn().
"""

from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.models.vgg import VGG, make_layers

BLOCKS = (3, 4, 6, 3)
POOL = "M"


def resnet50(widths=(64, 128, 256, 512), classes=100):
    model = ResNet(Bottleneck, BLOCKS, num_classes=classes)
    model.conv1 = nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
    model.bn1 = nn.BatchNorm2d(widths[0])
    model.inplanes = widths[0]
    for stage, (width, blocks) in enumerate(zip(widths, BLOCKS), 1):
        layers = model._make_layer(Bottleneck, width, blocks, stride=1 if stage == 1 else 2)
        setattr(model, f"layer{stage}", layers)
    model.fc = nn.Linear(widths[-1] * Bottleneck.expansion, classes)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def vgg11_bn(widths=(64, 128, 256, 512, 512, 4096), classes=100, side=32, dropout=0.0):
    """side: size of the images. torchvision always pools the last map to 7x7; here it is not changed, so that small
    images do not need 49 copies of each weight. Convolutions have Conv2d's initialization, because a bias
    of 0 before a BatchNorm would only accumulate rounding errors."""
    a, b, c, d, e, hidden = widths
    features = make_layers([a, POOL, b, POOL, c, c, POOL, d, d, POOL, e, e, POOL], batch_norm=True)
    model = VGG(features, num_classes=classes, init_weights=False, dropout=dropout)
    model.avgpool = nn.Identity()
    model.classifier[0] = nn.Linear(e * (side // 32) ** 2, hidden)
    model.classifier[3] = nn.Linear(hidden, hidden)
    model.classifier[6] = nn.Linear(hidden, classes)
    return model
