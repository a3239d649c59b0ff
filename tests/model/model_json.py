"""PyTorch implementation of model.json as documented in docs/models.md; the reference of from_pytorch.py for the
exporter."""

import json

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    """The layers of a model file with the weights of a state_dict. Frozen parameters have no gradient; dropout and
    stochastic depth are disabled."""

    def __init__(self, path, state):
        super().__init__()
        with open(path, encoding="utf-8") as f:
            self.file = json.load(f)
        frozen = {layer.get("params", {}).get(role, f"{layer.get('name')}.{role}")
                  for layer in self.file["layers"] for role in layer.get("frozen", ())}
        assert frozen <= set(state), frozen
        self.state = {name: tensor.detach().clone() for name, tensor in state.items()}
        for name, tensor in self.state.items():
            if name not in frozen and name.rsplit(".", 1)[-1] not in ("running_mean", "running_var", "num_batches_tracked"):
                tensor.requires_grad_()

    def forward(self, x):
        values = {"input": x}
        for layer in self.file["layers"]:
            layer = dict(layer)
            inputs = [values[name] for name in layer.pop("inputs")]
            key, kind = layer.pop("id"), layer.pop("kind")
            names, name = layer.pop("params", {}), layer.pop("name", None)
            layer.pop("frozen", None)

            def param(role, names=names, name=name):
                return self.state[names.get(role, f"{name}.{role}")]

            made = getattr(self, kind)(*inputs, param, **layer)
            assert made.dim() == 4, (key, made.shape)
            values[key] = made
        return values[self.file["output"]].flatten(1)

    def conv2d(self, x, param, out_channels, kernel, stride, padding, dilation, groups, bias):
        w = param("weight")
        assert list(w.shape) == [out_channels, x.shape[1] // groups, *kernel]
        return F.conv2d(x, w, param("bias") if bias else None, stride, padding, dilation, groups)

    def linear(self, x, param, out_features, bias):
        assert param("weight").shape[0] == out_features
        return F.linear(x.flatten(1), param("weight"), param("bias") if bias else None)[:, :, None, None]

    def linear_map(self, x, param, out_features, bias):
        assert param("weight").shape[0] == out_features
        return F.linear(x.permute(0, 2, 3, 1), param("weight"), param("bias") if bias else None).permute(0, 3, 1, 2)

    def batchnorm2d(self, x, param, eps, momentum):
        del momentum
        return F.batch_norm(x, param("running_mean"), param("running_var"), param("weight"), param("bias"), eps=eps)

    def groupnorm(self, x, param, groups, eps):
        return F.group_norm(x, groups, param("weight"), param("bias"), eps)

    def layernorm(self, x, param, eps):
        y = F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], param("weight"), param("bias"), eps)
        return y.permute(0, 3, 1, 2)

    def detach(self, x, _):
        return x.detach()

    def flatten(self, x, _):
        return x.flatten(1)[:, :, None, None]

    relu, relu6, silu, hardswish, sigmoid, hardsigmoid, tanh, gelu = (
        (lambda self, x, _, f=f: f(x)) for f in (F.relu, F.relu6, F.silu, F.hardswish, torch.sigmoid, F.hardsigmoid,
                                                 torch.tanh, F.gelu))

    def gelu_tanh(self, x, _):
        return F.gelu(x, approximate="tanh")

    def leaky_relu(self, x, _, slope):
        return F.leaky_relu(x, slope)

    def dropout(self, x, _, p):
        assert 0 < p < 1
        return x

    def stochastic_depth(self, x, _, p, mode="row"):
        assert 0 < p < 1 and mode in ("row", "batch")
        return x

    def maxpool2d(self, x, _, kernel, stride, padding=(0, 0), ceil_mode=False):
        return F.max_pool2d(x, kernel, stride, padding, 1, ceil_mode)

    def avgpool2d(self, x, _, kernel, stride, padding, ceil_mode=False, count_include_pad=True):
        return F.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad)

    def adaptive_avgpool2d(self, x, _, size):
        return F.adaptive_avg_pool2d(x, size)

    def global_avgpool2d(self, x, _):
        return x.mean((2, 3), keepdim=True)

    def add(self, x, y, _):
        assert x.shape == y.shape
        return x + y

    def mul(self, x, y, _):
        assert y.shape in (x.shape, (*x.shape[:2], 1, 1))
        return x * y

    def scale(self, x, param, ndim):
        assert param("weight").dim() == ndim
        return x * param("weight").view(-1, 1, 1)

    def concat(self, *inputs):
        return torch.cat(inputs[:-1], 1)

    def slice(self, x, _, begin, end):
        return x[:, begin:end]

    def shuffle(self, x, _, groups):
        return x.view(x.shape[0], groups, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape)

    def tokens(self, x, param, class_token, positions):
        y = x.flatten(2).transpose(1, 2)
        if class_token:
            y = torch.cat([param("class_token").expand(len(y), -1, -1), y], 1)
        if positions:
            y = y + param("pos_embedding")
        return y.transpose(1, 2)[:, :, :, None]

    def attention(self, x, _, heads):
        n, e3, s, _ = x.shape
        q, k, v = x.view(n, 3, heads, e3 // 3 // heads, s).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return y.transpose(2, 3).reshape(n, e3 // 3, s, 1)

    def token(self, x, _, index):
        return x[:, :, index:index + 1]
