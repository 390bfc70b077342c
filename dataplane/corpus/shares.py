"""Which share of a mixture each group gets: as asked, by size and temperature, or by UniMax; and what is replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, FiniteFloat, model_validator

from dataplane.corpus.mixture_plan import Size
from dataplane.errors import ParamsError, did_you_mean
from dataplane.params import Params


class SharesParams(Params):
    """What each group gets."""

    targets: dict[str, FiniteFloat] = Field(
        {}, description="Group -> its share, in any unit (shares are divided by their sum); empty takes every group by `spread`."
    )
    rest: float | None = Field(
        None,
        ge=0,
        description="Share that the groups not named in `targets` get together, in the same unit, split by `spread`; 0 leaves them out; "
        "null refuses them.",
    )
    spread: Literal["temperature", "unimax"] = Field(
        "temperature",
        description="How groups without a target of their own share: by size and `temperature`, or as evenly as max_epochs allows. Source: "
        "UniMax, arXiv:2304.09151, algorithm 1.",
    )
    temperature: float = Field(1.0, gt=0, description="Shares go by size ** (1 / temperature): 1 by size, large: equal.")
    replay: dict[str, FiniteFloat] = Field(
        {},
        description="Group -> its share of the whole, from 0 to 1, whatever the others get: general text that is trained on again in "
        "continued pretraining (0.2 to 0.3 in all is usual). The other groups split what is left.",
    )

    @model_validator(mode="after")
    def _are_shares(self) -> SharesParams:
        for group, share in [*self.targets.items(), *self.replay.items()]:
            if share < 0:
                raise ValueError(f"the share of {group!r} is negative")
        if self.targets and not sum(self.targets.values()) > 0:
            raise ValueError("no group has a share above 0")
        if sum(self.replay.values()) >= 1:
            raise ValueError("replay leaves nothing for the other groups")
        if both := sorted(set(self.targets) & set(self.replay)):
            raise ValueError(f"{both[0]!r} is in targets and in replay")
        return self


def shares(
    available: Mapping[str, Size], params: SharesParams, by: str, budget: float, most: Callable[[str], float], where: str = "mix"
) -> dict[str, float]:
    """Share of each group, which add up to 1.

    Args:
        available: Group -> what it has.
        params: What each is to get.
        by: What groups are told by, for messages.
        budget: Units of the whole, for UniMax.
        most: Group -> how often it is repeated at most, for UniMax.
        where: Path of the params, for messages.

    Raises:
        ParamsError: A target names no group, or a group has no target and `rest` is null.
    """
    _check_names(available, params, by, where)
    others = [name for name in available if name not in params.targets and name not in params.replay]
    rest = params.rest if params.targets else 1.0
    if others and rest is None:
        message = f"no target for {by} {', '.join(map(repr, others))}"
        fix = f"name them in {where}.targets, or set {where}.rest (0 leaves them out)"
        raise ParamsError(message, where=f"{where}.targets", fix=fix)
    left = 1.0 - sum(params.replay.values())
    asked = sum(params.targets.values()) + (rest or 0.0)
    spread = _spread({name: available[name].units for name in others}, params, budget * left * (rest or 0.0) / (asked or 1.0), most)
    wanted: dict[str, float] = dict(params.targets)
    wanted |= {name: share * (rest or 0.0) for name, share in spread.items()}
    wanted |= {name: share * (asked or 1.0) / left for name, share in params.replay.items()}
    total = sum(wanted.values()) or 1.0
    return {name: wanted[name] / total for name in available}


def _check_names(available: Mapping[str, Size], params: SharesParams, by: str, where: str) -> None:
    for place, names in ((f"{where}.targets", params.targets), (f"{where}.replay", params.replay)):
        for name in names:
            if name not in available:
                message = f"target {name!r} is no {by} of the documents that are left, {did_you_mean(name, available)}"
                raise ParamsError(message, where=place, fix=f"correct the name, or take it out of {place} in params.yaml")


def _spread(units: Mapping[str, int], params: SharesParams, budget: float, most: Callable[[str], float]) -> dict[str, float]:
    """Shares of these groups, which add up to 1."""
    if params.spread == "unimax":
        weights = unimax({name: size * most(name) for name, size in units.items()}, budget)
    else:
        weights = {name: float(size) ** (1 / params.temperature) for name, size in units.items()}
    total = sum(weights.values()) or 1.0
    return {name: weight / total for name, weight in weights.items()}


def unimax(limits: Mapping[str, float], budget: float) -> dict[str, float]:
    """Units of each group: the same for all, but no more than its limit; what one cannot give, the larger ones do.

    Args:
        limits: Group -> units that it can give with all its epochs.
        budget: Units wanted of all together.

    Source: Chung et al. 2023, arXiv:2304.09151, algorithm 1.
    """
    taken: dict[str, float] = {}
    for place, name in enumerate(sorted(limits, key=lambda name: (limits[name], name))):
        taken[name] = min(limits[name], budget / (len(limits) - place))
        budget -= taken[name]
    return taken
