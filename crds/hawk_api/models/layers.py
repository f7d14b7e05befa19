"""One transformer layer: what it retains of the past, and what its weights are.

Sizes of keys and values are in elements, so that the KV type decides the bytes; a recurrent state has a
type of its own and is in bytes. Parameter counts include biases and norms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hawk_api.v1alpha1.enums import AttentionKind

Span = tuple[int, int | None]
"""The cost of one token, and up to which token of the context it comes; None without an end."""


@dataclass(frozen=True, slots=True)
class Attention:
    """How a layer retains the past."""

    kind: AttentionKind
    elements_per_token: int
    """Elements kept for one token: keys and values, or the latent and the rotary key. 0 for a pure state."""
    parameters: int
    """Weights of the attention block, its norms excluded except those inside it."""
    kv_heads: int = 0
    """Heads that keys and values have; 1 for a latent, 0 for a pure state."""
    head_dim: int = 0
    """Elements of one head's key; of the latent with its rotary part."""
    window: int | None = None
    """Sliding: the tokens that are kept."""
    reads: int | None = None
    """Sparse: the entries that one step reads; all are kept."""
    index_bytes: int = 0
    """Bytes of a token's key in the index that chooses these entries; a step reads all of them."""
    index_work_per_pair: int = 0
    """Operations of the index for one query token and one earlier token."""
    state_bytes: int = 0
    """Linear: bytes of state, whatever the context."""
    work_per_pair: int = 0
    """Floating-point operations of a prefill for one query token and one earlier token, all heads."""
    decode_work_per_pair: int = 0
    """The same of a decode step. Attention over a latent does more then, because it works on the latent
    instead of expanding it to keys and values."""

    def kept(self, element_bytes: int) -> tuple[Span, ...]:
        """Bytes that a sequence keeps for each token. A state comes on top of them."""
        return _span(self.elements_per_token * element_bytes + self.index_bytes, self.window)

    def read(self, element_bytes: int) -> tuple[Span, ...]:
        """Bytes that a decode step reads for each token of the context. A state comes on top of them."""
        chosen = _span(self.elements_per_token * element_bytes, self._seen)
        return chosen + _span(self.index_bytes, self.window)

    def work(self, *, decode: bool) -> tuple[Span, ...]:
        """Operations of one query token for each token that it may attend to."""
        attended = _span(self.decode_work_per_pair if decode else self.work_per_pair, self._seen)
        return attended + _span(self.index_work_per_pair, self.window)

    @property
    def _seen(self) -> int | None:
        """The most tokens that one token attends to; None without a limit."""
        return min((limit for limit in (self.window, self.reads) if limit is not None), default=None)

    def retained_bytes(self, tokens: int, element_bytes: int) -> int:
        """Bytes kept for one sequence. A state exists from the first token on."""
        return total(self.kept(element_bytes), tokens) + (self.state_bytes if tokens else 0)

    def read_bytes(self, tokens: int, element_bytes: int) -> int:
        """Bytes of it that one decode step reads."""
        return total(self.read(element_bytes), tokens) + (self.state_bytes if tokens else 0)

    def grows(self) -> bool:
        """True if each further token costs memory, whatever the context."""
        return self.window is None and self.elements_per_token > 0


def total(spans: tuple[Span, ...], tokens: int) -> int:
    """Return the cost of `tokens` tokens."""
    return sum(cost * (tokens if end is None else min(tokens, end)) for cost, end in spans)


def _span(cost: int, end: int | None) -> tuple[Span, ...]:
    return ((cost, end),) if cost else ()


@dataclass(frozen=True, slots=True)
class Ffn:
    """A dense feed-forward network (experts = 0), or a mixture of experts with its router."""

    hidden: int
    width: int
    """Inner width of the dense network or of one expert."""
    matrices: int = 3
    """3 with a gate, 2 without."""
    experts: int = 0
    per_token: int = 0
    shared: int = 0
    """Experts that every token goes through besides."""
    biased: bool = False
    router_extra: int = 0
    """Parameters of the router beyond its matrix."""
    latent: int = 0
    """Width of the latent that routed experts work on; 0 where they work on the hidden width."""

    @property
    def expert_parameters(self) -> int:
        """Weights of the dense network or of one routed expert."""
        return self._network(self.latent or self.hidden)

    @property
    def shared_parameters(self) -> int:
        """Weights of the shared experts, and of the projections to the latent and back."""
        return self.shared * self._network(self.hidden) + 2 * self.hidden * self.latent

    def _network(self, hidden: int) -> int:
        biases = (self.matrices - 1) * self.width + hidden if self.biased else 0
        return self.matrices * hidden * self.width + biases

    @property
    def resident(self) -> int:
        """Weights that occupy memory, the router excluded."""
        return self.expert_parameters * max(1, self.experts) + self.shared_parameters

    @property
    def active(self) -> int:
        """Weights that one token goes through, the router excluded."""
        return self.expert_parameters * max(1, self.per_token) + self.shared_parameters

    @property
    def routed(self) -> int:
        """Weights of all routed experts; 0 of a dense network."""
        return self.expert_parameters * self.experts

    @property
    def router(self) -> int:
        """Weights that choose experts."""
        return self.hidden * self.experts + self.router_extra if self.experts else 0


@dataclass(frozen=True, slots=True)
class Layer:
    """Attention, feed-forward network and the norms round them."""

    attention: Attention
    ffn: Ffn
    norm_parameters: int


def grouped_query(
    hidden: int,
    query_heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    window: int | None = None,
    reads: int | None = None,
    qkv_bias: bool = False,
    output_bias: bool = False,
    extra_parameters: int = 0,
) -> Attention:
    """Multi-head, grouped-query or multi-query attention over all tokens, a window, or a chosen few."""
    if query_heads < 1 or kv_heads < 1 or query_heads % kv_heads:
        raise ValueError(
            f"{query_heads} query heads are no multiple of {kv_heads} key/value heads; correct one"
        )
    queries, values = query_heads * head_dim, kv_heads * head_dim
    biases = (queries + 2 * values if qkv_bias else 0) + (hidden if output_bias else 0)
    kind = AttentionKind.SLIDING if window else AttentionKind.SPARSE if reads else AttentionKind.FULL
    return Attention(
        kind=kind,
        elements_per_token=2 * values,
        parameters=2 * hidden * queries + 2 * hidden * values + biases + extra_parameters,
        kv_heads=kv_heads,
        head_dim=head_dim,
        window=window,
        reads=reads,
        work_per_pair=4 * queries,
        decode_work_per_pair=4 * queries,
    )


def latent(
    hidden: int,
    heads: int,
    *,
    rank: int,
    rope: int,
    nope: int,
    value: int,
    query_rank: int | None,
) -> Attention:
    """Multi-head latent attention: one latent and one rotary key a token, shared by all heads."""
    width = heads * (nope + rope)
    query = hidden * width if query_rank is None else hidden * query_rank + query_rank + query_rank * width
    compress = hidden * (rank + rope) + rank
    expand = rank * heads * (nope + value)
    return Attention(
        kind=AttentionKind.MLA,
        elements_per_token=rank + rope,
        parameters=query + compress + expand + heads * value * hidden,
        kv_heads=1,
        head_dim=rank + rope,
        work_per_pair=2 * heads * (nope + rope + value),
        decode_work_per_pair=2 * heads * (rank + rope + rank),
    )


def recurrent(state_bytes: int, parameters: int) -> Attention:
    """Linear attention: a state of fixed size."""
    return Attention(
        kind=AttentionKind.LINEAR, elements_per_token=0, parameters=parameters, state_bytes=state_bytes
    )


def delta_attention(hidden: int, heads: int, head_dim: int, convolution: int) -> Attention:
    """Kimi Delta Attention: a float32 matrix a head, and the tails of three short convolutions in 16 bits."""
    width = heads * head_dim
    low_rank = hidden * head_dim + head_dim * width
    parameters = 4 * hidden * width + 3 * width * convolution + 2 * low_rank + width
    parameters += hidden * heads + heads + width + head_dim
    state = heads * head_dim * head_dim * 4 + 3 * width * (convolution - 1) * 2
    return recurrent(state, parameters)


def gated_delta(
    hidden: int, *, key_heads: int, key_dim: int, value_heads: int, value_dim: int, convolution: int
) -> Attention:
    """Gated DeltaNet: a float32 matrix a value head, and the tail of one short convolution in 16 bits."""
    values = value_heads * value_dim
    mixed = 2 * key_heads * key_dim + values
    projections = hidden * (mixed + values + 2 * value_heads) + values * hidden
    state = value_heads * key_dim * value_dim * 4 + mixed * (convolution - 1) * 2
    return recurrent(state, projections + mixed * convolution + 2 * value_heads + value_dim)


def mamba2(
    hidden: int, *, heads: int, head_dim: int, groups: int, state: int, convolution: int, element_bytes: int
) -> Attention:
    """Mamba 2: a matrix of head dimension by state a head, and the tail of a short convolution in 16 bits."""
    inner = heads * head_dim
    mixed = inner + 2 * groups * state
    projections = hidden * (inner + mixed + heads) + inner * hidden
    kept = inner * state * element_bytes + mixed * (convolution - 1) * 2
    return recurrent(kept, projections + mixed * (convolution + 1) + 3 * heads + inner)


def indexed(
    attention: Attention, hidden: int, query_rank: int, *, heads: int, width: int, reads: int
) -> Attention:
    """Attention that reads the `reads` tokens which an index of `heads` heads of `width` elements chooses.

    The index keeps one key a token, in 8 bits with a scale of four bytes (DeepSeek sparse attention).
    """
    projections = query_rank * heads * width + hidden * width + 2 * width + hidden * heads
    return replace(
        attention,
        parameters=attention.parameters + projections,
        reads=reads,
        index_bytes=width + 4,
        index_work_per_pair=2 * heads * width,
    )
