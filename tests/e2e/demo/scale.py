"""How large the demo's model and its request are, and how patient it is: for this machine, or for a guest."""

from dataclasses import dataclass

from .llama import Shape


@dataclass(frozen=True)
class Scale:
    """`capacity` is in tokens; `patience` multiplies every time limit."""

    shape: Shape
    capacity: int
    prompt_tokens: int
    new_tokens: int
    chunk_layers: int
    patience: float = 1.0


# No prompt fills its last tile, so that padding is exercised too.
SCALES = {
    "full": Scale(Shape(), capacity=560, prompt_tokens=509, new_tokens=16, chunk_layers=3),
    # An emulated processor is some twenty times slower.
    "emulated": Scale(
        Shape(layers=6, hidden=128, heads=4, kv_heads=4, head_dim=32, ffn=256, vocabulary=512),
        capacity=112,
        prompt_tokens=93,
        new_tokens=16,
        chunk_layers=2,
        patience=4.0,
    ),
}
