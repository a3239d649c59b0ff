#!/usr/bin/env python3
"""Records PyTorch's softmax cross-entropy with smoothed and mixed labels, in double precision, as the C
header loss.h:

    python3 tests/reference/record_loss.py >tests/reference/loss.h

Logits are multiples of 1/8, which every number format represents exactly. The line of a case has the mean
loss, the number of labels among the 5 largest logits (torch.topk), and the gradient."""
import torch
import torch.nn.functional as F

N, K = 3, 7
LABEL, OTHER, SHARE = [2, 0, 6], [5, 0, 1], [0.75, 1, 0.375]


def main():
    x = torch.tensor([[((n * K + i) * 37 + 11) % 64 / 8 - 4 for i in range(K)] for n in range(N)],
                     dtype=torch.float64, requires_grad=True)
    label, other = torch.tensor(LABEL), torch.tensor(OTHER)
    share = torch.tensor(SHARE, dtype=torch.float64)
    mixed = F.one_hot(label, K) * share[:, None] + F.one_hot(other, K) * (1 - share[:, None])
    top = torch.topk(x, 5).indices

    def numbers(values):
        return "{" + ", ".join(f"{v:.17g}" for v in values) + "}"

    print(f"/* Written by record_loss.py with PyTorch {torch.__version__.split('+')[0]}: not to be edited. */")
    print(f"enum {{ RECORDED_N = {N}, RECORDED_K = {K} }};")
    print(f"static const double recorded_logits[] = {numbers(x.flatten().tolist())};")
    print(f"static const int recorded_label[] = {numbers(LABEL)}, recorded_other[] = {numbers(OTHER)};")
    print(f"static const double recorded_share[] = {numbers(SHARE)};")
    print("static const struct {\n    int mixed;\n    double smoothing, loss;\n    int top5;\n"
          "    double gradient[RECORDED_N * RECORDED_K];\n} recorded_losses[] = {")
    for target in label, mixed:
        right = label if target is label else torch.where(share >= 0.5, label, other)
        for smoothing in 0, 0.125:
            loss = F.cross_entropy(x, target, label_smoothing=smoothing)
            gradient, = torch.autograd.grad(loss, x)
            inside = (top == right[:, None]).sum()
            print(f"    {{{int(target is mixed)}, {smoothing}, {loss.item():.17g}, {inside},\n"
                  f"     {numbers(gradient.flatten().tolist())}}},")
    print("};")


main()
