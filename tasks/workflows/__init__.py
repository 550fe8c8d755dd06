"""What can be asked for. One file a workflow: each module here that has a `WORKFLOW` is one."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from tasks.workflows.base import (
    AsCsv,
    Choice,
    Finished,
    Lines,
    Option,
    Options,
    OptionsWrong,
    OwnWords,
    Step,
    Todo,
    Workflow,
)


def _found() -> dict[str, Workflow]:
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    workflows = [module.WORKFLOW for module in modules if hasattr(module, "WORKFLOW")]
    # The summary first, since it is what most people come for; then by name.
    return {one.name: one for one in sorted(workflows, key=lambda one: (one.name != "summary", one.name))}


WORKFLOWS: Mapping[str, Workflow] = MappingProxyType(_found())

__all__ = [
    "WORKFLOWS",
    "AsCsv",
    "Choice",
    "Finished",
    "Lines",
    "Option",
    "Options",
    "OptionsWrong",
    "OwnWords",
    "Step",
    "Todo",
    "Workflow",
]
