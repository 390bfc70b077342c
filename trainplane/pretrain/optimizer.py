"""Groups of parameters, and the optimizers that DeepSpeed's config does not name or cannot run everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainplane.params import PretrainParams


def groups(model: Any, params: PretrainParams) -> list[dict[str, Any]]:
    """Matrices decay; embeddings, norms and biases do not. Each group has a `name`; a group without parameters is left out.

    With Muon, embeddings and the output matrix are Adam's, as its author has it.
    """
    import torch

    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    sorted_in: dict[str, list[Any]] = {"matrices": [], "embeddings": [], "vectors": []}
    for parameter in model.parameters():
        if parameter.requires_grad:
            kind = "embeddings" if id(parameter) in embeddings else "matrices" if parameter.ndim >= 2 else "vectors"
            sorted_in[kind].append(parameter)
    decay = {"matrices": params.weight_decay, "embeddings": 0.0, "vectors": 0.0}
    return [{"params": found, "weight_decay": decay[name], "name": name} for name, found in sorted_in.items() if found]


def own_optimizer(params: PretrainParams) -> Callable[[Any], Any] | None:
    """Makes the optimizer from groups, where it is ours; None where DeepSpeed makes it from its config."""
    if params.optimizer != "lamb":
        return None
    return lambda parameters: lamb(parameters, params.learning_rate, (params.beta1, params.beta2), params.epsilon)


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
