"""Groups of parameters, and the optimizers that DeepSpeed's config does not name or cannot run everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainplane.params import PretrainParams

MATRICES = "matrices"


def groups(model: Any, params: PretrainParams, held: Any = None) -> list[dict[str, Any]]:
    """Matrices decay, an output matrix of its own too; embeddings, norms and biases do not. Each group has a `name`; a group without
    parameters is left out.

    Args:
        model: Of transformers.
        params: Of pretraining.
        held: What this rank has of it, where that is not all.
    """
    import torch

    here = {id(parameter) for parameter in (model if held is None else held).parameters()}

    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    output = model.get_output_embeddings()
    head = set() if output is None else {id(output.weight)} - embeddings
    sorted_in: dict[str, list[Any]] = {MATRICES: [], "head": [], "embeddings": [], "vectors": []}
    for parameter in model.parameters():
        if parameter.requires_grad and id(parameter) in here:
            kinds = {"embeddings": id(parameter) in embeddings, "head": id(parameter) in head, MATRICES: parameter.ndim >= 2}
            sorted_in[next((kind for kind, found in kinds.items() if found), "vectors")].append(parameter)
    decay = {MATRICES: params.weight_decay, "head": params.weight_decay, "embeddings": 0.0, "vectors": 0.0}
    return [{"params": found, "weight_decay": decay[name], "name": name} for name, found in sorted_in.items() if found]


def own_optimizer(params: PretrainParams) -> Callable[[Any], Any] | None:
    """Makes the optimizer from groups, where it is ours; None where DeepSpeed makes it from its config."""
    make = {"lamb": lamb, "muon": muon}.get(params.optimizer)
    if make is None:
        return None
    return lambda parameters: make(parameters, params.learning_rate, (params.beta1, params.beta2), params.epsilon)


def muon(parameters: Any, lr: float, betas: tuple[float, float], eps: float) -> Any:
    """Muon for the matrices, AdamW for the rest, at one learning rate: Muon's steps are made as large as AdamW's usually are.

    Both are PyTorch's; this joins them, since a run has one optimizer. Source: Jordan 2024, https://kellerjordan.github.io/posts/muon/;
    Liu et al. 2025, arXiv:2502.16982, section 2.2, for the size of the steps.
    """
    import torch

    class MuonAndAdam(torch.optim.Optimizer):  # type: ignore[misc]  # torch has no types here
        def step(self, closure: Any = None) -> None:
            for kind, inner in (("muon", muons), ("adam", adams)):
                # Anew each time: a checkpoint that is loaded brings groups and state of its own.
                inner.param_groups = [group for group in self.param_groups if (group["name"] == MATRICES) == (kind == "muon")]
                inner.state = self.state
                inner.step()

    alone = torch.nn.Parameter(torch.zeros(1, 1))
    muons = torch.optim.Muon([alone], lr=lr, adjust_lr_fn="match_rms_adamw")
    adams = torch.optim.AdamW([alone], lr=lr, betas=betas, eps=eps)
    known = [(muons if group["name"] == MATRICES else adams).defaults | group for group in parameters]
    return MuonAndAdam(known, {"lr": lr})


def lamb(parameters: Any, lr: float, betas: tuple[float, float], eps: float) -> Any:
    """LAMB: Adam's direction, scaled in each tensor to the size of the tensor.

    PyTorch has none, and DeepSpeed's is a CUDA kernel that is compiled at first use.

    Source: You et al. 2020, arXiv:1904.00962, algorithm 2, with phi(z) = z.
    """
    import torch

    class Lamb(torch.optim.Optimizer):  # type: ignore[misc]  # torch has no types here
        @torch.no_grad()  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        _lamb_update(weight, group, self.state[weight])

    return Lamb(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})


def _lamb_update(weight: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
    import torch

    if not state:
        state |= {"step": 0, "exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
    state["step"] += 1
    (beta1, beta2), first, second = group["betas"], state["exp_avg"], state["exp_avg_sq"]
    first.lerp_(weight.grad, 1 - beta1)
    second.mul_(beta2).addcmul_(weight.grad, weight.grad, value=1 - beta2)
    denominator = (second / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
    direction = (first / (1 - beta1 ** state["step"])) / denominator + group["weight_decay"] * weight
    size, length = weight.norm(), direction.norm()
    trust = torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
    weight.sub_(direction * trust * group["lr"])
