"""Which model a pool serves: a preset, explicit geometry, or a config.json in a ConfigMap."""

from typing import Annotated

from pydantic import ConfigDict, Field

from hawk_api.base import DNS_SUBDOMAIN, Bool, Int, Model, rule, rules
from hawk_api.quantity import Quantity
from hawk_api.v1alpha1.enums import AttentionKind, DataType, Precision

Count = Annotated[Int, Field(ge=1, le=1_048_576)]


class GeometrySpec(Model):
    """The shape of a decoder-only transformer, as far as memory and arithmetic depend on it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.attention == 'MLA' || (has(self.kvHeads) && has(self.headDim))",
                "kvHeads and headDim are needed unless attention is MLA; add both",
            ),
            rule(
                "!has(self.kvHeads) || self.queryHeads % self.kvHeads == 0",
                "queryHeads must be a multiple of kvHeads; correct one of the two",
                ".kvHeads",
            ),
            rule(
                "self.attention != 'MLA' || has(self.latentRank)",
                "attention MLA needs latentRank (kv_lora_rank in config.json); add it",
                ".latentRank",
            ),
            rule(
                "self.attention != 'Sliding' || has(self.window)",
                "attention Sliding needs window (tokens); add it",
                ".window",
            ),
            rule(
                "self.attention != 'Linear' || has(self.stateBytes)",
                "attention Linear needs stateBytes (state of one layer and sequence); add it",
                ".stateBytes",
            ),
            rule(
                "self.attention != 'Hybrid' || "
                "(has(self.globalEvery) && (has(self.window) != has(self.stateBytes)))",
                "attention Hybrid needs globalEvery, and window or stateBytes for the other layers; add them",
                ".globalEvery",
            ),
            rule(
                "has(self.experts) == has(self.expertsPerToken)",
                "experts and expertsPerToken belong together; give both or neither",
                ".experts",
            ),
            rule(
                "!has(self.experts) || !has(self.expertsPerToken) || self.expertsPerToken <= self.experts",
                "expertsPerToken must be at most experts; lower it",
                ".expertsPerToken",
            ),
        )
    )

    attention: AttentionKind = AttentionKind.FULL
    """How layers keep past tokens."""
    layers: Annotated[Int, Field(ge=1, le=1024)]
    """Transformer layers."""
    query_heads: Annotated[Int, Field(ge=1, le=1024)]
    """Query heads of the whole model."""
    kv_heads: Annotated[Int, Field(ge=1, le=1024)] | None = None
    """Key/value heads of the whole model (queryHeads if not grouped)."""
    head_dim: Annotated[Int, Field(ge=1, le=4096)] | None = None
    """Elements of a head's key, and of its value."""
    hidden: Count
    """Elements of the residual stream per token."""
    ffn: Count
    """Inner elements of a dense layer's feed-forward network."""
    vocabulary: Annotated[Int, Field(ge=1, le=16_777_216)]
    """Tokens in the vocabulary."""
    tied_embeddings: Bool = False
    """True if input and output embeddings are one matrix."""
    window: Count | None = None
    """Tokens that a sliding-window layer retains."""
    global_every: Annotated[Int, Field(ge=1, le=1024)] | None = None
    """Hybrid: one in so many layers attends to all tokens."""
    latent_rank: Count | None = None
    """MLA: elements of a token's compressed latent."""
    rope_dim: Annotated[Int, Field(ge=0, le=4096)] | None = None
    """MLA: elements of the rotary key stored with the latent."""
    state_bytes: Quantity | None = None
    """Linear layers: bytes of state per layer and sequence, 0 or more."""
    experts: Annotated[Int, Field(ge=1, le=4096)] | None = None
    """Mixture of experts: experts per layer."""
    experts_per_token: Annotated[Int, Field(ge=1, le=4096)] | None = None
    """Mixture of experts: experts chosen per token."""
    shared_experts: Annotated[Int, Field(ge=0, le=64)] | None = None
    """Mixture of experts: additional experts that all tokens use."""
    expert_ffn: Count | None = None
    """Mixture of experts: inner elements of one expert; default ffn."""
    dense_layers: Annotated[Int, Field(ge=0, le=1024)] | None = None
    """Mixture of experts: layers with a dense network instead."""


class ConfigMapKey(Model):
    """A key of a ConfigMap in the pool's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
    """The ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "config.json"
    """The key that holds the text."""


class ModelSpec(Model):
    """Exactly one of preset, geometry and configMapRef, and the type of the KV cache's elements."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "[has(self.preset), has(self.geometry), has(self.configMapRef)].filter(x, x).size() == 1",
                "give exactly one of preset, geometry and configMapRef",
            ),
        )
    )

    preset: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """A model known by name; `hawk kv --list` prints the names."""
    geometry: GeometrySpec | None = None
    """The shape of a model that has no preset."""
    config_map_ref: ConfigMapKey | None = None
    """A Hugging Face config.json."""
    kv_dtype: DataType = DataType.FLOAT16
    """Element type of the KV cache, the same in every group."""
    weights: Precision | None = None
    """Number format of the weights; default the published one."""
