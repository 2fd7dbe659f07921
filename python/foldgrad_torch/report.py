"""A report of what was done to the normalizers of a model, and what was not."""
from __future__ import annotations

from dataclasses import dataclass, field


class Refusal(Exception):
    """The reason why a normalizer stays as it is."""


@dataclass
class Report:
    """What was done, and why something was refused, by the names that normalizers have in the model."""
    done: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max(map(len, self.done | self.refused), default=0)
        lines = [f"done     {name:{width}}  {what}" for name, what in self.done.items()]
        return "\n".join(lines + [f"refused  {name:{width}}  {why}" for name, why in self.refused.items()])
