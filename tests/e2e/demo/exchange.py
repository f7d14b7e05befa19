"""One request through both model processes, and the judgement: what every demo shares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .report import DemoError, Step
from .scale import Scale
from .worker import Worker


@dataclass(frozen=True)
class Exchange:
    """The workers by role (prefill, decode, alone), how large requests are, and where lines go."""

    workers: Mapping[str, Worker]
    scale: Scale
    say: Callable[[str], None]

    def transfer(self, step: Step) -> None:
        """One request: prefill, translated transfer, decode; tokens and bytes equal to one process alone."""
        step.facts.update(self.request("first", prompt_seed=1))
        facts = step.facts
        self.say(f"  tokens, one process alone: {facts['tokens_alone']}")
        self.say(f"  tokens, prefill and decode apart: {facts['tokens']}")
        self.say(f"  destination SHA-256 {facts['sha256']}, digest {facts['digest']}")
        step.detail = (
            f"{len(facts['tokens'])} tokens equal; {facts['bytes'] / 1e6:.1f} MB in {facts['chunks']} chunks "
            f"by {facts['transport']}, {facts['hidden_share']:.0%} hidden, "
            f"{facts['exposed_ms']:.0f} ms exposed"
        )

    def request(self, name: str, prompt_seed: int) -> dict[str, Any]:
        """Run one request through both and through one alone; raises DemoError where they differ."""
        rng = np.random.default_rng(prompt_seed)
        vocabulary = self.scale.shape.vocabulary
        prompt = [int(token) for token in rng.integers(0, vocabulary, self.scale.prompt_tokens)]
        alone = self.workers["alone"]
        alone.start_ask("generate", prompt=prompt, count=self.scale.new_tokens)
        try:
            made = self.push(self.reserve(name), prompt)
            received = self.workers["decode"].ask("decode", first=made["first"], count=self.scale.new_tokens)
            result = self.workers["prefill"].ask("result")
        finally:
            expected = alone.answer()  # fetched in any case, or the next request would get it
        facts = {**made, **result, **received, "tokens_alone": expected["tokens"]}
        if not result["ok"] or not result["verified"]:
            raise DemoError(f"the transfer ended as {result['outcome']}: {result['message']}")
        if received["sha256"] != expected["sha256"]:
            raise DemoError(f"destination {received['sha256']}, one process alone has {expected['sha256']}")
        if received["tokens"] != expected["tokens"]:
            raise DemoError(f"tokens {received['tokens']}, one process alone gives {expected['tokens']}")
        return facts

    def reserve(self, name: str) -> bytes:
        """Have the decode side grant a lease for one request; returns its ticket."""
        ticket: bytes = self.workers["decode"].ask("reserve", request=name, tokens=self.scale.prompt_tokens)
        return ticket

    def push(self, ticket: bytes, prompt: list[int] | None = None) -> dict[str, Any]:
        """Have the prefill side prefill and send; raises RuntimeError with its words."""
        made: dict[str, Any] = self.workers["prefill"].ask(
            "prefill",
            prompt=prompt or [1] * self.scale.prompt_tokens,
            ticket=ticket,
            chunk_layers=self.scale.chunk_layers,
        )
        return made

    def refused(self, stale: bytes) -> None:
        """The control: a ticket of the agent's earlier life opens nothing."""
        try:
            self.push(stale)
        except RuntimeError as error:
            self.say(f"  a ticket from before the restart is refused: {error}")
        else:
            raise DemoError("a ticket from before the restart was taken")
