"""Checked access to the keys of a config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 1 << 26


class ModelConfigError(ValueError):
    """A config.json that can't be understood; the message names the key and the remedy."""


class ConfigReader:
    """Checked access to a config's keys."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.config = config
        self.name = name

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number from `least` up."""
        value = self.config.get(key)
        if value is None:
            if default is None:
                raise ModelConfigError(
                    f"{self.name}: {key} is missing; give the model's complete config.json"
                )
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
            raise ModelConfigError(
                f"{self.name}: {key} is {value!r}; it must be a whole number from {least} up"
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        value = self.config.get(key, default)
        return default if value is None else bool(value)

    def listed(self, key: str) -> list[Any]:
        """A list; empty where the key is absent or null."""
        value = self.config.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ModelConfigError(f"{self.name}: {key} is {value!r}; it must be a list")
        return value

    def optional(self, key: str) -> int | None:
        """A whole number, or None where the key is absent or null."""
        return None if self.config.get(key) is None else self.count(key)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.count("num_attention_heads")

    @property
    def head_dim(self) -> int:
        """Elements a head; the hidden width over the heads where it isn't given."""
        explicit = self.optional("head_dim")
        if explicit:
            return explicit
        hidden = self.count("hidden_size")
        if hidden % self.heads:
            raise ModelConfigError(
                f"{self.name}: hidden_size {hidden} is no multiple of num_attention_heads {self.heads} "
                "and head_dim is missing; add head_dim"
            )
        return hidden // self.heads
