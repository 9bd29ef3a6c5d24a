"""Muon for the matrices and AdamW for the rest (https://kellerjordan.github.io/posts/muon), with same-shaped matrices
orthogonalized in one batch. The update's size is matched to AdamW's (0.2 RMS), so one learning rate serves both (AdamW takes half of it)."""

from collections import defaultdict

import torch


def orthogonalize(g):
    """Newton-Schulz iteration on a batch of matrices [k, m, n]: pushes all singular values towards one."""
    x = g.bfloat16() if g.is_cuda else g
    if x.shape[1] > x.shape[2]:
        return orthogonalize(x.mT).mT
    x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).to(x.dtype)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


class Muon:
    def __init__(self, named, momentum=0.95, weight_decay=0.0, plain=()):
        """plain: name parts of the matrices that AdamW takes (embeddings, first and last layers)."""
        named = [(n, p) for n, p in named if p.requires_grad]
        matrices = [p for n, p in named if p.ndim >= 2 and not any(part in n for part in plain)]
        rest = [p for _, p in named if not any(p is m for m in matrices)]
        groups = defaultdict(list)
        for p in matrices:
            groups[(p.shape[0], p[0].numel())].append(p)
        self.groups = [(params, [torch.zeros_like(p) for p in params]) for params in groups.values()]
        self.momentum, self.weight_decay = momentum, weight_decay
        self.adam = torch.optim.AdamW(rest, betas=(0.9, 0.99), weight_decay=0.0, fused=rest[0].is_cuda)
        self.params = [*matrices, *rest]

    def reset(self):
        self.adam.state.clear()
        for _, buffers in self.groups:
            torch._foreach_zero_(buffers)

    @torch.no_grad()
    def step(self, lr):
        self.adam.param_groups[0]["lr"] = 0.5 * lr
        self.adam.step()
        for params, buffers in self.groups:
            grads = [p.grad for p in params]
            torch._foreach_lerp_(buffers, grads, 1 - self.momentum)
            update = torch._foreach_lerp(grads, buffers, self.momentum)
            update = orthogonalize(torch.stack([u.flatten(1) for u in update])).to(params[0].dtype)
            rows, columns = update.shape[1:]
            if self.weight_decay:
                torch._foreach_mul_(params, 1 - lr * self.weight_decay)
            torch._foreach_add_(params, [u.view_as(p) for u, p in zip(update, params)], alpha=-lr * 0.2 * max(rows, columns) ** 0.5)
        for p in self.params:
            p.grad = None
