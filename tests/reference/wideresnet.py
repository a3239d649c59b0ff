"""The guides' WideResNet for PyTorch, with channel widths and dropout as arguments.

Module names are those of the guides' model, so that each can load the other's state_dict. Images are
(N,3,32,32); the last pooling window is 7x7 on an 8x8 map, so its last row and column are not read.
"""

from torch import nn

CIFAR100_WIDTHS = (16, 160, 320, 640)


class ConvBnRelu(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.cbr = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.cbr(x)


class Block(nn.Module):
    """Two ConvBnRelu plus the input. In the first block of a stage the input passes a 1x1 convolution, even if
    the widths are equal. No activation follows the addition."""

    def __init__(self, channels_in, channels_out, dropout, scale_input):
        super().__init__()
        if scale_input:
            self.scale = nn.Conv2d(channels_in, channels_out, 1)
        else:
            self.scale = None
        self.layer1 = ConvBnRelu(channels_in, channels_out)
        self.dropout = nn.Dropout(dropout)
        self.layer2 = ConvBnRelu(channels_out, channels_out)

    def forward(self, x):
        shortcut = x if self.scale is None else self.scale(x)
        return self.layer2(self.dropout(self.layer1(x))) + shortcut


class WideResNet(nn.Module):
    def __init__(self, classes=100, widths=CIFAR100_WIDTHS, dropout=0.01):
        super().__init__()
        w0, w1, w2, w3 = widths
        self.input_block = ConvBnRelu(3, w0)
        self.block1 = Block(w0, w1, dropout, scale_input=True)
        self.block2 = Block(w1, w1, dropout, scale_input=False)
        self.pool1 = nn.MaxPool2d(2)
        self.block3 = Block(w1, w2, dropout, scale_input=True)
        self.block4 = Block(w2, w2, dropout, scale_input=False)
        self.pool2 = nn.MaxPool2d(2)
        self.block5 = Block(w2, w3, dropout, scale_input=True)
        self.block6 = Block(w3, w3, dropout, scale_input=False)
        self.pool = nn.AvgPool2d(7)
        self.flat = nn.Flatten()
        self.fc = nn.Linear(w3, classes)

    def forward(self, x):
        x = self.input_block(x)
        x = self.pool1(self.block2(self.block1(x)))
        x = self.pool2(self.block4(self.block3(x)))
        x = self.block6(self.block5(x))
        return self.fc(self.flat(self.pool(x)))
