"""The items of a task of lm-evaluation-harness whose data are local files.

The passages are the fields that the task's templates name, not the filled-in templates: "Question:" before each item is the
task's, and no document that holds the item holds it too. Where a template is a function, its text is the passage.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from dataplane.corpus.passage_text import passage_text
from dataplane.errors import EnvironmentFault, ParamsError, SourceError

TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice")
FIX = "correct decontaminate.benchmarks, or the task's YAML file"


def passages(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Id and passages of each item of every split; the id is the split's name and the item's number from 0.

    Raises:
        ParamsError: The file is not there, or no task.
        SourceError: The harness cannot read the task's data.
        EnvironmentFault: The harness is not installed.
    """
    task = _load(path)
    templates = [template for name in TEMPLATES if (template := getattr(task.config, name)) is not None]
    for split, items in task.dataset.items():
        takes = [_reader(template, items.column_names) for template in templates]
        for number, item in enumerate(items):
            # A number is the place of a choice.
            parts = [part for take in takes for part in take(item) if part is not None and not isinstance(part, int)]
            yield f"{split}:{number}", [text for part in parts for text in _texts(part)]


def files(path: Path) -> list[Path]:
    """The task's YAML and the local files that its data are in, sorted.

    Raises:
        ParamsError: The file is not there, or no YAML.
    """
    config = _config(path)
    named = (config.get("dataset_kwargs") or {}).get("data_files") or []
    return sorted({path, *(Path(name) for name in _strings(named))})


def _config(path: Path) -> dict[str, Any]:
    try:
        # Functions and includes of the harness are its own tags.
        loader = type("Loader", (yaml.SafeLoader,), {})
        loader.add_multi_constructor("!", lambda loader, suffix, node: None)  # type: ignore[attr-defined]
        config = yaml.load(path.read_text(encoding="utf-8"), loader)  # a SafeLoader
    except FileNotFoundError:
        raise ParamsError(f"no file {path}", where="decontaminate.benchmarks", fix=FIX) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is no YAML: {error}", where="decontaminate.benchmarks", fix=FIX) from None
    if not isinstance(config, dict) or not isinstance(config.get("task"), str):
        raise ParamsError(f"{path} is no single task", where="decontaminate.benchmarks", fix=FIX)
    return config


def _load(path: Path) -> Any:
    name = _config(path)["task"]
    try:
        from lm_eval.tasks import TaskManager
    except ImportError:
        raise EnvironmentFault("lm-eval is not installed", where=str(path), fix='pip install "terraplane[train]"') from None
    with _quiet():
        try:
            return TaskManager(include_defaults=False).load(str(path))["tasks"][name]
        except Exception as error:  # the harness and datasets raise whatever they meet
            raise SourceError(f"the task cannot be loaded: {error}", where=str(path), fix=FIX) from error


def _reader(template: Any, columns: Sequence[str]) -> Callable[[dict[str, Any]], list[Any]]:
    """What of an item a template shows."""
    if callable(template):
        return lambda item: [template(item)]
    if not isinstance(template, str):
        return lambda item: []
    if template in columns:
        return lambda item: [item[template]]
    from jinja2 import Environment, meta

    names = sorted(meta.find_undeclared_variables(Environment().parse(template)) & set(columns))
    return lambda item: [item[name] for name in names]


def _texts(part: Any) -> list[str]:
    """Each choice of a list is a passage of its own."""
    return [passage_text(choice) for choice in part] if isinstance(part, list) else [passage_text(part)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(part)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The harness logs its doings and draws bars, whatever it is asked."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
