"""The workflows: the kinds of result that a user can ask for. Every module here with a `WORKFLOW` defines one."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from tasks.workflows.base import (
    AsCsv,
    Choice,
    Finished,
    InvalidOptions,
    Lines,
    NextSteps,
    Option,
    Options,
    OwnTexts,
    Step,
    Workflow,
)


def _find_workflows() -> dict[str, Workflow]:
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    workflows = [module.WORKFLOW for module in modules if hasattr(module, "WORKFLOW")]
    # The summary first, since most users come for it; then by name.
    workflows.sort(key=lambda workflow: (workflow.name != "summary", workflow.name))
    return {workflow.name: workflow for workflow in workflows}


WORKFLOWS: Mapping[str, Workflow] = MappingProxyType(_find_workflows())

__all__ = [
    "WORKFLOWS",
    "AsCsv",
    "Choice",
    "Finished",
    "InvalidOptions",
    "Lines",
    "NextSteps",
    "Option",
    "Options",
    "OwnTexts",
    "Step",
    "Workflow",
]
