"""The command that shows what the mixture will be: plan-mixture."""

from __future__ import annotations

from pathlib import Path

import click

from dataplane.commands.printing import JSON_OPTION, console, json_text


@click.command("plan-mixture")
@JSON_OPTION
def plan_mixture(as_json: bool) -> None:
    """Shows the mixture that `mix` in params.yaml would give: what there is, epochs of each group, what runs short. Writes nothing."""
    from dataplane.corpus.mixture import MixParams, plan, sizes
    from dataplane.corpus.mixture_input import read_input
    from dataplane.params import load_params
    from dataplane.snapshot import Snapshot

    params = MixParams.parse(load_params(Path("params.yaml")).get("mix"), where="mix")
    found = read_input(Snapshot.load("documents"), [Snapshot.load("decontaminated")], params, Snapshot.load("cuts"))
    planned = plan(sizes(found.training, params), params)
    if as_json:
        click.echo(json_text(planned.to_json()))
    else:
        console().print(planned.to_table())
