"""Params: what changes outputs. Kept in params.yaml, checked before anything runs, hashed into every identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from dataplane.errors import ParamsError, did_you_mean

DIGEST_HEX_CHARS = 32


class Params(BaseModel):
    """Base of every params class: frozen, and unknown keys are refused with a hint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(cls, values: Mapping[str, Any] | None, *, where: str) -> Self:
        """Checks `values` and collects every fault before raising.

        Args:
            values: The subtree of params.yaml; None reads as empty.
            where: Path of the subtree, for the message ("select.rules[0].params").

        Raises:
            ParamsError: An unknown key, a wrong type, or a value out of range.
        """
        if values is not None and not isinstance(values, Mapping):
            raise ParamsError(f"expected a mapping of params, got {values!r}", where=where, fix=f"edit params.yaml at {where}")
        try:
            return cls.model_validate(dict(values or {}))
        except ValidationError as error:
            raise ParamsError(
                "; ".join(_explain(fault, cls) for fault in error.errors()),
                where=where,
                fix=f"edit params.yaml at {where}",
            ) from None


def _explain(fault: Any, cls: type[BaseModel]) -> str:
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown param {path!r}, {did_you_mean(str(fault['loc'][-1]), _siblings(cls, fault['loc'][:-1]))}"
    if fault["type"] == "missing":
        return f"param {path!r} is required"
    return f"{path or 'params'}: {fault['msg']} (got {fault['input']!r})"


def _siblings(cls: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields beside a misspelt one, found by walking the location down the annotations."""
    for part in loc:
        field = cls.model_fields.get(str(part))
        nested = _model_in(field.annotation) if field else None
        if nested is not None:
            cls = nested
    return list(cls.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None


def load_params(path: Path) -> dict[str, Any]:
    """Reads a params file.

    Raises:
        ParamsError: The file is missing, is not YAML, or is not a mapping.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParamsError(f"{path} does not exist", fix="run inside a project; `dataplane init DIR` makes one") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is not valid YAML: {error}", fix=f"edit {path}") from None
    if not isinstance(loaded, dict):
        raise ParamsError(f"{path} holds {type(loaded).__name__}, expected a mapping", fix=f"edit {path}")
    return loaded


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space, so that equal values give equal text."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """128-bit hex digest of a JSON-like value or a params object."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:DIGEST_HEX_CHARS]
