"""Families whose layers differ: states beside attention, or an index that chooses the tokens to read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hawk_api.models.geometry import Geometry
from hawk_api.models.layers import Ffn, Layer, gated_delta, grouped_query, indexed, mamba2, recurrent
from hawk_api.models.reader import ConfigReader, ModelConfigError

if TYPE_CHECKING:
    from hawk_api.models.layers import Attention

_FLOAT32 = 4
_REMEDY = "give spec.model.geometry"


def qwen3_next(read: ConfigReader) -> Geometry:
    """Qwen3-Next and Qwen3.5: Gated DeltaNet in most layers, gated attention in every fourth."""
    hidden, heads, width = read.count("hidden_size"), read.heads, read.count("head_dim", 256)
    full = grouped_query(
        hidden,
        heads,
        read.count("num_key_value_heads"),
        width,
        extra_parameters=hidden * heads * width + 2 * width,
    )
    delta = gated_delta(
        hidden,
        key_heads=read.count("linear_num_key_heads"),
        key_dim=read.count("linear_key_head_dim"),
        value_heads=read.count("linear_num_value_heads"),
        value_dim=read.count("linear_value_head_dim"),
        convolution=read.count("linear_conv_kernel_dim", 4),
    )
    experts = read.count("num_experts", 0, least=0)
    ffn = _experts_of_qwen(read, hidden, experts) if experts else Ffn(hidden, read.count("intermediate_size"))
    every = read.count("full_attention_interval", 4)
    kinds = read.listed("layer_types") or [
        "linear_attention" if (index + 1) % every else "full_attention"
        for index in range(read.count("num_hidden_layers"))
    ]
    of_kind = {"full_attention": full, "linear_attention": delta}
    return _of_layers(
        read, [Layer(_known(read, "layer_types", of_kind, kind), ffn, 2 * hidden) for kind in kinds]
    )


def _experts_of_qwen(read: ConfigReader, hidden: int, experts: int) -> Ffn:
    if read.listed("mlp_only_layers") or read.count("decoder_sparse_step", 1) != 1:
        raise ModelConfigError(
            f"{read.name}: mlp_only_layers: dense among sparse layers aren't read; {_REMEDY}"
        )
    width = read.count("moe_intermediate_size")
    return Ffn(
        hidden,
        width,
        experts=experts,
        per_token=read.count("num_experts_per_tok"),
        shared=_multiple(read, "shared_expert_intermediate_size", width),
        router_extra=hidden,  # the shared expert's gate
    )


def nemotron_h(read: ConfigReader) -> Geometry:
    """Nemotron-H and Nemotron 3: every layer is a state, attention, a dense network, or experts."""
    hidden = read.count("hidden_size")
    none = Ffn(hidden, 0)
    parts: dict[str, tuple[Attention, Ffn]] = {}
    kinds = _kinds_of_nemotron(read)
    for kind in set(kinds):
        if kind == "mamba":
            parts[kind] = (_mamba(read, hidden), none)
        elif kind == "attention":
            width = read.optional("head_dim") or read.count("attention_head_dim")
            parts[kind] = (grouped_query(hidden, read.heads, read.count("num_key_value_heads"), width), none)
        elif kind == "mlp":
            parts[kind] = (recurrent(0, 0), Ffn(hidden, read.count("intermediate_size"), matrices=2))
        else:
            parts[kind] = (recurrent(0, 0), _experts_of_nemotron(read, hidden))
    return _of_layers(read, [Layer(*parts[kind], hidden) for kind in kinds])


def _kinds_of_nemotron(read: ConfigReader) -> list[str]:
    """The kind of each layer: a word in newer files, a letter in older ones."""
    letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    key = "layers_block_type" if read.config.get("layers_block_type") else "hybrid_override_pattern"
    listed = read.config.get(key)
    if not isinstance(listed, str | list) or len(listed) != read.count("num_hidden_layers", len(listed)):
        raise ModelConfigError(f"{read.name}: {key} must have one entry for each layer; correct it")
    kinds = [letters.get(str(one), str(one)) for one in listed]
    if unknown := sorted(set(kinds) - set(letters.values())):
        raise ModelConfigError(f"{read.name}: {key} has {unknown[0]!r}, which is not known; {_REMEDY}")
    return kinds


def _mamba(read: ConfigReader, hidden: int) -> Attention:
    return mamba2(
        hidden,
        heads=read.count("mamba_num_heads"),
        head_dim=read.count("mamba_head_dim"),
        groups=read.count("n_groups"),
        state=read.count("ssm_state_size"),
        convolution=read.count("conv_kernel", 4),
        element_bytes=_FLOAT32 if read.config.get("mamba_ssm_cache_dtype") == "float32" else 2,
    )


def _experts_of_nemotron(read: ConfigReader, hidden: int) -> Ffn:
    width, experts = read.count("moe_intermediate_size"), read.count("n_routed_experts")
    return Ffn(
        hidden,
        width,
        matrices=2,
        experts=experts,
        per_token=read.count("num_experts_per_tok"),
        shared=_multiple(read, "moe_shared_expert_intermediate_size", width),
        router_extra=experts,
        latent=read.optional("moe_latent_size") or 0,
    )


def sparse_latent(read: ConfigReader, dense: Geometry) -> Geometry:
    """DeepSeek-V3.2 and GLM-5: `dense` with an index; layers that share another's have none of their own."""
    hidden, reads = read.count("hidden_size"), read.count("index_topk")
    kinds = read.listed("indexer_types") or ["full"] * dense.layer_count
    if len(kinds) != dense.layer_count:
        raise ModelConfigError(f"{read.name}: indexer_types must list num_hidden_layers entries; correct it")

    def attention(kind: object, before: Attention) -> Attention:
        own = indexed(
            before,
            hidden,
            read.count("q_lora_rank"),
            heads=read.count("index_n_heads"),
            width=read.count("index_head_dim"),
            reads=reads,
        )
        return _known(read, "indexer_types", {"full": own, "shared": replace(before, reads=reads)}, kind)

    return replace(
        dense,
        layers=tuple(
            replace(layer, attention=attention(kind, layer.attention))
            for kind, layer in zip(kinds, dense.layers, strict=True)
        ),
    )


def _multiple(read: ConfigReader, key: str, width: int) -> int:
    """How many experts the shared one counts for."""
    shared = read.count(key, 0, least=0)
    if shared % width:
        raise ModelConfigError(
            f"{read.name}: {key} {shared} is no multiple of an expert's {width}; {_REMEDY}"
        )
    return shared // width


def _known(read: ConfigReader, key: str, kinds: dict[str, Attention], kind: object) -> Attention:
    found = kinds.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise ModelConfigError(f"{read.name}: {key} has {kind!r}; known are {', '.join(kinds)}; {_REMEDY}")
    return found


def _of_layers(read: ConfigReader, layers: list[Layer]) -> Geometry:
    if len(layers) != read.count("num_hidden_layers", len(layers)):
        raise ModelConfigError(f"{read.name}: layer_types must list num_hidden_layers entries; correct it")
    hidden = read.count("hidden_size")
    return Geometry(
        name=str(read.config.get("_name_or_path") or read.name),
        hidden=hidden,
        vocabulary=read.count("vocab_size"),
        query_heads=read.heads,
        layers=tuple(layers),
        tied_embeddings=read.flag("tie_word_embeddings", False),
        extra_parameters=hidden,
    )
