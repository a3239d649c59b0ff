"""Tests starstep-from-pytorch: exports torchvision's models and hand-written ones and compares outputs and gradients of
the exported files with those of the modules. Checks that unsupported models are refused.

    from_pytorch.py EXPORTER [torchvision]
"""

import importlib.machinery
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

import model_json

STARSTEP = os.environ.get("STARSTEP")  # if set, must read the exported files
TORCHVISION = {"resnet18": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 32, "vgg16": 32, "vgg11_bn": 32, "alexnet": 64,
               "squeezenet1_1": 64, "googlenet": 64, "inception_v3": 96, "densenet121": 64, "mobilenet_v2": 64,
               "mobilenet_v3_small": 64, "mobilenet_v3_large": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64,
               "regnet_x_400mf": 64, "regnet_y_400mf": 64, "mnasnet0_5": 64, "shufflenet_v2_x0_5": 64,
               "convnext_tiny": 64, "vit_b_16": 32}


class Net(nn.Module):
    """A module with the given forward function, parameters and submodules."""

    def __init__(self, forward, params=None, **modules):
        super().__init__()
        self.function = forward
        for name, module in modules.items():
            self.add_module(name, module)
        for name, shape in (params or {}).items():
            setattr(self, name, nn.Parameter(torch.randn(shape)))

    def forward(self, x):
        return self.function(self, x)


class Attention(nn.Module):
    """Attention with query, key and value from one layer, as in timm, or from a layer for each."""

    def __init__(self, width, heads, one):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width) if one else None
        self.q, self.k, self.v = (None if one else nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, s, e = x.shape
        if self.qkv:
            q, k, v = self.qkv(x).reshape(n, s, 3, self.heads, e // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            q, k, v = (f(x).view(n, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, s, e))


def squeeze(m, x):
    s = F.adaptive_avg_pool2d(x, 1).flatten(1)
    return x * torch.sigmoid(m.up(F.relu(m.down(s)))).view(x.shape[0], x.shape[1], 1, 1).expand_as(x)


def shuffle(m, x):
    n, c, h, w = x.shape
    x = m.first(x).view(n, 3, 4, h, w).transpose(1, 2).reshape(n, 12, h, w)
    a, b, c = x.split([2, 4, 6], 1)
    return torch.cat([torch.tanh(c)[:, 1:5], a, b.narrow(1, -3, 2)], dim=-3)


def transformer(m, x):
    n = x.shape[0]
    x = m.patches(x).flatten(2).transpose(1, 2)
    x = torch.cat([m.cls.expand(n, -1, -1), x], 1) + m.pos
    x = x + m.attention(m.norm(x))
    x = x + m.after(F.gelu(m.before(x), approximate="tanh"))
    return m.head(x[:, 0])


def separate(m, x):
    x = m.patches(x).flatten(2).permute(0, 2, 1) + m.pos
    return m.head((x + m.attention(x)).mean(1))


def in_place(m, x):
    y = m.first(x)
    y.relu_()
    z = m.second(y)
    z += y
    return m.head(z.flatten(1))


def head(m, x):
    return m.head(x.mean((-1, -2)))


def without_gradient(m, x):
    with torch.no_grad():
        y = m.norm(m.first(x))
        a, b = y.relu().chunk(2, 1)
    return m.head((a + b).flatten(1))


def partly(m, x):
    """Mixes inputs with and without a gradient; enable_grad inside no_grad makes a nested graph."""
    y = m.first(x)
    with torch.no_grad():
        z = m.second(y).relu_()
        with torch.enable_grad():
            u = m.third(y)
        v = z * 1
    return m.head((y + v + u).flatten(1))


def in_place_without_gradient(m, x):
    y = m.first(x)
    with torch.no_grad():
        y.relu_()
    return y.flatten(1)


def keep(module, *names):
    """Freezes these parameters; returns the module."""
    for name in names:
        module.get_parameter(name).requires_grad_(False)
    return module


def conv(channels=12, **options):
    return nn.Conv2d(3, channels, 3, padding=1, **options)


def ending(*layers):
    """Returns a model that ends with the given layers."""
    return nn.Sequential(conv(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), *layers)


def heads(join):
    return Net(lambda m, x: join(m.a(x.mean((2, 3))), m.b(x.mean((2, 3)))), a=nn.Linear(3, 10), b=nn.Linear(3, 10))


def vit():
    return Net(transformer, {"cls": (1, 1, 12), "pos": (1, 17, 12)}, patches=nn.Conv2d(3, 12, 4, 4), norm=nn.LayerNorm(12),
               attention=Attention(12, 3, True), before=nn.Linear(12, 20), after=nn.Linear(20, 12), head=nn.Linear(12, 10))


def hand_written():
    return {
        "ends with LayerNorm": ending(nn.Linear(12, 10), nn.LayerNorm(10)),
        "ends with ReLU": ending(nn.Linear(12, 10), nn.ReLU()),
        "ends with dropout": ending(nn.Linear(12, 10), nn.Dropout(0.5)),
        "ends with BatchNorm": ending(nn.Linear(12, 10), nn.BatchNorm1d(10)),
        "ends without bias": ending(nn.Linear(12, 10, bias=False)),
        "ends with a slice": Net(lambda m, x: m.a(x.mean((2, 3)))[:, 2:12], a=nn.Linear(3, 15)),
        "ends with a sum": heads(torch.add),
        "ends with a product": heads(torch.mul),
        "ends with a concatenation": heads(lambda a, b: torch.cat([a, b], 1)),
        "ends with a product of halves": Net(lambda m, x: torch.mul(*m.a(x.mean((2, 3))).chunk(2, 1)), a=nn.Linear(3, 20)),
        "a product of halves": Net(lambda m, x: head(m, torch.mul(*m.first(x).chunk(2, 1))), first=conv(),
                                   head=nn.Linear(6, 10)),
        "activations": nn.Sequential(
            conv(8), nn.ReLU(), nn.Conv2d(8, 8, (3, 1), padding="same", dilation=(2, 1)), nn.LeakyReLU(0.2),
            nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, (2, 3), stride=(1, 2), padding=(0, 1), groups=4),
            nn.Hardswish(), nn.Sigmoid(), nn.Hardsigmoid(), nn.Tanh(), nn.GELU(), nn.ReLU6(), nn.Hardtanh(0, 6),
            nn.Dropout(0.3), nn.Dropout(0.0), nn.AdaptiveAvgPool2d((3, 2)), nn.Flatten(), nn.Linear(48, 20), nn.ReLU(),
            nn.BatchNorm1d(20), nn.Linear(20, 10, bias=False), nn.LogSoftmax(1)),
        "pools": nn.Sequential(
            conv(8), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2, 1, 1, count_include_pad=False),
            nn.AvgPool2d((3, 2), ceil_mode=True), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 10)),
        "no linear": nn.Sequential(conv(10), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "squeeze": Net(lambda m, x: head(m, squeeze(m, m.first(x))), first=conv(), down=nn.Linear(12, 3),
                       up=nn.Linear(3, 12), head=nn.Linear(12, 10)),
        "shuffle": Net(lambda m, x: head(m, shuffle(m, x)), first=conv(), head=nn.Linear(8, 10)),
        "scale": Net(lambda m, x: m.head((m.a * (m.b * m.first(x)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).flatten(1)),
                     {"a": (12,), "b": (12, 1, 1)}, first=conv(), head=nn.Linear(12 * 256, 10)),
        "transformer": vit(),
        "separate": Net(separate, {"pos": (1, 16, 12)}, patches=nn.Conv2d(3, 12, 4, 4), attention=Attention(12, 2, False),
                        head=nn.Linear(12, 10)),
        "in place": Net(in_place, first=conv(), second=nn.Conv2d(12, 12, 1), head=nn.Linear(12 * 256, 10)),
        "frozen front": keep(nn.Sequential(conv(), nn.BatchNorm2d(12), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 256, 10)),
                             "0.weight", "0.bias", "1.weight", "1.bias"),
        "frozen middle": keep(Net(in_place, first=conv(), second=nn.Conv2d(12, 12, 1), head=nn.Linear(12 * 256, 10)),
                              "second.weight", "second.bias"),
        "frozen weights": keep(Net(in_place, first=conv(), second=nn.Conv2d(12, 12, 1), head=nn.Linear(12 * 256, 10)),
                               "first.weight", "second.weight", "head.bias"),
        "frozen parameters": keep(vit(), "cls", "norm.bias", "before.weight"),
        "frozen positions": keep(vit(), "pos", "patches.weight", "patches.bias"),
        "all frozen": keep(nn.Sequential(conv(), nn.Flatten()), "0.weight", "0.bias"),
        "no_grad": Net(without_gradient, first=conv(), norm=nn.BatchNorm2d(12), head=nn.Linear(6 * 256, 10)),
        "no_grad, partly": Net(partly, first=conv(), second=nn.Conv2d(12, 12, 1), third=nn.Conv2d(12, 12, 1),
                               head=nn.Linear(12 * 256, 10)),
        "detached": Net(lambda m, x: m.head((m.second(y := m.first(x.detach())) + y.detach()).flatten(1)), first=conv(),
                        second=nn.Conv2d(12, 12, 1), head=nn.Linear(12 * 256, 10)),
        "detached half": Net(lambda m, x: m.head(torch.cat([(y := m.first(x))[:, :4].detach(), y[:, 2:]], 1).flatten(1)),
                             first=conv(), head=nn.Linear(14 * 256, 10)),
        "detached, flat": Net(lambda m, x: m.a(y := m.first(x).mean((2, 3))) + m.b(y.detach()), first=conv(),
                              a=nn.Linear(12, 10), b=nn.Linear(12, 10)),
        "flat parts": Net(lambda m, x: m.head(torch.cat([m.a(x).flatten(1), m.b(x).mean((2, 3))], 1)), a=conv(4),
                          b=conv(5), head=nn.Linear(4 * 256 + 5, 10)),
    }


def shared():
    layer = nn.Conv2d(12, 12, 1)
    return nn.Sequential(conv(), layer, nn.ReLU(), layer)


def buffered(forward):
    m = Net(forward, first=conv())
    m.register_buffer("mask", torch.ones(12, 1, 1))
    return m


def frozen(m, x):
    m.norm.eval()
    return m.norm(m.first(x)).flatten(1)


def later(m, x):
    y = m.first(x)
    z = y.flatten(1)
    y.relu_()
    return z


def refused():
    """Returns {name: (module, fragments required in the message)} of unsupported models."""
    first = {"first": conv()}
    return {
        "instance norm": (nn.Sequential(conv(), nn.InstanceNorm2d(12)), ["1: aten.instance_norm: ", "GroupNorm"]),
        "upsample": (nn.Sequential(conv(), nn.Upsample(scale_factor=2)), ["1: aten.upsample_nearest2d: "]),
        "same, even": (nn.Sequential(nn.Conv2d(3, 8, 2, padding="same")), ["aten.conv2d: ", "both sides"]),
        "reflect": (nn.Sequential(conv(padding_mode="reflect")), ["aten.pad: "]),
        "shared": (shared(), ["3: aten.conv2d: reads 3.weight, which 1 reads too"]),
        "no affine": (nn.Sequential(conv(), nn.BatchNorm2d(12, affine=False)), ["aten.batch_norm: ", "affine=True"]),
        "no statistics": (nn.Sequential(conv(), nn.BatchNorm2d(12, track_running_stats=False)),
                          ["aten.batch_norm: ", "track_running_stats=True"]),
        "cumulative": (nn.Sequential(conv(), nn.BatchNorm2d(12, momentum=None)), ["1: batch_norm ", "momentum"]),
        "buffer": (buffered(lambda m, x: m.first(x) * m.mask), ["aten.mul: ", "mask"]),
        "unused buffer": (buffered(lambda m, x: m.first(x).flatten(1)), ["mask: this buffer", "persistent=False"]),
        "frozen": (Net(frozen, norm=nn.BatchNorm2d(12), **first), ["norm: aten.batch_norm: ", "training mode"]),
        "unused parameter": (Net(lambda m, x: m.first(x).flatten(1), {"idle": (3,)}, **first), ["idle: ", "remove it"]),
        "dead branch": (Net(lambda m, x: (m.idle(x), m.first(x).flatten(1))[1], idle=conv(), **first), ["idle.weight: "]),
        "two outputs": (Net(lambda m, x: (m.first(x).flatten(1), x), **first), ["2 outputs"]),
        "softmax": (nn.Sequential(conv(), nn.Flatten(), nn.Softmax(1)), ["2: aten.softmax: ", "cross-entropy"]),
        "map at the end": (nn.Sequential(conv()), ["(N,classes)"]),
        "dilated pool": (nn.Sequential(conv(), nn.MaxPool2d(2, dilation=2)), ["1: aten.max_pool2d: "]),
        "number": (Net(lambda m, x: m.first(x) * 0.5, **first), ["aten.mul: "]),
        "alpha": (Net(lambda m, x: torch.add(m.first(x), x[:, :1].expand(-1, 12, -1, -1), alpha=2), **first), ["aten.add: "]),
        "spatial": (Net(lambda m, x: m.first(x) * m.first(x).mean(1, keepdim=True), **first), ["reads first.weight"]),
        "strided": (Net(lambda m, x: m.first(x)[:, ::2].flatten(1), **first), ["aten.slice: slices with step 2"]),
        "rows": (Net(lambda m, x: m.first(x)[:, :, 1:].flatten(1), **first), ["aten.slice: ", "channels"]),
        "channels last": (Net(lambda m, x: m.head(m.first(x).permute(0, 2, 3, 1).flatten(1)), head=nn.Linear(12 * 256, 10),
                              **first), ["head: aten.linear: ", "permute"]),
        "images, number": (Net(lambda m, x: m.first((x - 0.5) / 0.25).flatten(1), **first),
                           ["aten.sub: ", "the number 0.5", "are normalized", "from_pytorch.py, line "]),
        "images, buffer": (buffered(lambda m, x: m.first(x / m.mask[:3]).flatten(1)), ["aten.", "mask"]),
        "images, constant": (Net(lambda m, x: m.first(x - torch.tensor([1., 2, 3]).view(3, 1, 1)).flatten(1), **first),
                             ["aten.sub: ", "a constant", "are normalized"]),
        "weight_norm": (nn.Sequential(nn.utils.parametrizations.weight_norm(conv()), nn.Flatten()),
                        ["0: WeightNorm", "remove_parametrizations"]),
        "spectral_norm": (nn.Sequential(nn.utils.parametrizations.spectral_norm(conv()), nn.Flatten()),
                          ["0: SpectralNorm", "remove_parametrizations"]),
        "spectral_norm, old": (nn.Sequential(nn.utils.spectral_norm(conv()), nn.Flatten()),
                               ["0: SpectralNorm", "remove_spectral_norm"]),
        "standardised weight": (Net(lambda m, x: F.conv2d(x, m.first.weight - m.first.weight.mean()).flatten(1), **first),
                                ["aten.mean: ", "the parameter first.weight where a layer's output is needed"]),
        "pixel shuffle": (nn.Sequential(conv(), nn.PixelShuffle(2)), ["1: aten.pixel_shuffle: ", "upsampling"]),
        "made in forward": (Net(lambda m, x: (m.first(x) + torch.arange(16.)).flatten(1), **first),
                            ["aten.arange: ", "forward() makes a tensor"]),
        "recurrent": (nn.Sequential(conv(), nn.GRU(16, 16)), ["1: GRU: recurrent"]),
        "function": (Net(lambda m, x: torch.exp(m.first(x)).flatten(1), **first), ["aten.exp: ", "GELU, Hardswish"]),
        "in place, no_grad": (Net(in_place_without_gradient, **first), ["aten.relu_: ", "inplace=False"]),
        "in place, later": (Net(later, **first), ["aten.relu_: ", "inplace=False"]),
        "half": (nn.Sequential(conv(), nn.Flatten()).double(), ["fp32", ".float()"]),
        "control flow": (Net(lambda m, x: m.first(x).flatten(1) if x.sum() > 0 else x, **first), ["torch.export cannot"]),
        "fields": (Net(lambda m, x: torch.atan(m.first(x)).flatten(1), **first), ["aten.atan: starstep has no such layer"]),
        "dropout2d": (nn.Sequential(conv(), nn.Dropout2d(0.5), nn.Flatten()), ["1: aten.feature_dropout: ", "StochasticDepth"]),
        "weights stored": (Net(lambda m, x: m.out(*[m.first(x).flatten(2).mT] * 3)[0].mean(1), first=conv(),
                             out=nn.MultiheadAttention(12, 2, batch_first=True)), ["need_weights=False"]),
    }


def load(path):
    """Loads the exporter, whose file name has no extension."""
    loader = importlib.machinery.SourceFileLoader("starstep_from_pytorch", path)
    spec = importlib.util.spec_from_loader("starstep_from_pytorch", loader)
    module = sys.modules["starstep_from_pytorch"] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class Test:
    def __init__(self, exporter, folder):
        self.exporter, self.folder, self.failures = exporter, folder, 0

    def report(self, what, trouble):
        self.failures += bool(trouble)
        print(f"FAIL: {what}: {trouble}" if trouble else f"ok: {what}", flush=True)

    def same(self, name, module, side):
        """Checks that the exported file computes the same as the module in evaluation mode."""
        x = torch.randn(3, 3, side, side)
        try:
            self.exporter.export_model(module, x[:1], self.folder)
        except self.exporter.Refused as error:
            self.report(name, error)
            return
        for m in module.modules():  # random statistics, so that layers are distinguishable
            if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
                nn.init.uniform_(m.running_mean, -0.1, 0.1)
                nn.init.uniform_(m.running_var, 0.5, 2)
                nn.init.uniform_(m.weight, 0.5, 2)
        for parameter in module.parameters():
            if not torch.any(parameter):  # a head initialized with 0
                nn.init.normal_(parameter)
        module.double().eval()
        model = model_json.Model(os.path.join(self.folder, "model.json"), module.state_dict())
        if STARSTEP and subprocess.run([STARSTEP, "plan", "--model", os.path.join(self.folder, "model.json"), "--batch-size",
                                        "2"], stdout=subprocess.DEVNULL).returncode:
            self.report(name, "starstep cannot read the file")
            return
        want = module(x.double())
        got = model(x.double())
        if isinstance(module, nn.Sequential) and isinstance(module[-1], nn.LogSoftmax):
            got = got.log_softmax(1)
        error = float(((got - want).norm() / want.norm()).detach()) if got.shape == want.shape else float("nan")
        trouble = not error < 1e-12 or self.other_gradients(module, model, want, got)
        self.report(f"{name}: {len(model.file['layers'])} layers, off by {error:.1e}", trouble)

    @staticmethod
    def other_gradients(module, model, want, got):
        """Returns the names of the parameters whose gradient differs, or exists on one side only."""
        weights = torch.randn_like(want)
        for y in want, got:
            if y.requires_grad:
                (y * weights).sum().backward()
        return [name for name, p in module.named_parameters()
                if (p.grad is None) != (model.state[name].grad is None) or
                p.grad is not None and not torch.allclose(p.grad, model.state[name].grad, 1e-8, 1e-10)]

    def refused(self, name, module, words):
        for file in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, file))
        try:
            self.exporter.export_model(module, torch.randn(2, 3, 16, 16, dtype=next(module.parameters()).dtype), self.folder)
            self.report(name, "not refused")
        except self.exporter.Refused as error:
            text = str(error)
            lacks = [word for word in words if word not in text]
            left = os.listdir(self.folder)
            self.report(f"{name}: {text[:150]}", f"missing {lacks}" if lacks else left or "\n" in text)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    exporter = load(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        test = Test(exporter, folder)
        if sys.argv[2:]:
            import types
            import torchvision
            print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
            for name in sys.argv[3:] or TORCHVISION:
                side = TORCHVISION[name]
                _, module = exporter.torchvision_model(types.SimpleNamespace(
                    torchvision=name, classes=10, image_size=[side, side]))
                test.same(name, module, side)
        else:
            for name, module in hand_written().items():
                test.same(name, module, 16)
            for name, (module, words) in refused().items():
                test.refused(name, module, words)
    return test.failures > 0


if __name__ == "__main__":
    sys.exit(main())
