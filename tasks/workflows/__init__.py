"""What can be asked for. One file a workflow; this is their list."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tasks.workflows.base import Choice, Finished, OptionsWrong, Step, Todo, Workflow
from tasks.workflows.summary import Summary

WORKFLOWS: Mapping[str, Workflow] = MappingProxyType({workflow.name: workflow for workflow in (Summary(),)})

__all__ = ["WORKFLOWS", "Choice", "Finished", "OptionsWrong", "Step", "Todo", "Workflow"]
