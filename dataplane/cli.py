"""The command line of the data plane: what `dataplane` can be asked. Heavy imports live inside the commands that need them."""

from __future__ import annotations

from typing import Any

import click

from dataplane.commands import (
    compare,
    contains,
    examples,
    forget,
    installed,
    language_models,
    measures,
    mixture,
    project,
    publish,
    questions,
    train,
    versions,
)
from dataplane.errors import TerraplaneError, of_system


class _Group(click.Group):
    """Prints an error that we know as a message with its fix, and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TerraplaneError as error:
            click.echo(f"error: {error.render()}", err=True)
            raise SystemExit(error.exit_code) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            fault = of_system(error)
            click.echo(f"error: {fault.render()}", err=True)
            raise SystemExit(fault.exit_code) from None


@click.group(cls=_Group)
@click.version_option(package_name="terraplane")
def main() -> None:
    """Raw text to versioned, measured, deduplicated and packed tables. Work is started by `dvc repro`."""


for command in (
    project.init,
    questions.sql,
    questions.why,
    questions.raw,
    contains.contains,
    questions.tour,
    compare.diff,
    measures.whatif,
    measures.funnel,
    measures.stats,
    mixture.plan_mixture,
    versions.snapshot,
    versions.lake,
    forget.forget,
    publish.export,
    publish.publish,
    train.train_quality,
    language_models.train_lm,
    language_models.fit_buckets,
    train.train_toxicity,
    train.compile_blocklist,
    examples.agreement,
    examples.augment,
    train.fit_site_lines,
    train.fit_instruction_pool,
    installed.plugins,
    installed.models,
):
    main.add_command(command)
