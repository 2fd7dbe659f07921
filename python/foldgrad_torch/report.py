"""A report on which normalizers of a model were changed, and why others were not."""
from __future__ import annotations

from dataclasses import dataclass, field


class Refusal(Exception):
    """Says why a normalizer stays unchanged."""


@dataclass
class Report:
    """The changes, and the reasons for refusals. The keys are the names of the normalizers in the model."""
    done: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max(map(len, self.done | self.refused), default=0)
        lines = [f"done     {name:{width}}  {what}" for name, what in self.done.items()]
        return "\n".join(lines + [f"refused  {name:{width}}  {why}" for name, why in self.refused.items()])
