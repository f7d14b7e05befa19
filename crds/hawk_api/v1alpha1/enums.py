"""The closed sets of values in the API."""

from enum import StrEnum


class Role(StrEnum):
    """The role of a group's workers."""

    PREFILL = "Prefill"
    DECODE = "Decode"
    BOTH = "Both"

    @property
    def prefills(self) -> bool:
        """True if the role can run prefills."""
        return self is not Role.DECODE

    @property
    def decodes(self) -> bool:
        """True if the role can decode."""
        return self is not Role.PREFILL


class QueueOrder(StrEnum):
    """How the router in front of the workers orders prompts that wait."""

    ARRIVAL = "Arrival"
    """First come, first served."""
    SLACK = "Slack"
    """Soonest latest start first; those that can't be in time any more after all that can."""


class BurstReserve(StrEnum):
    """The reserve of workers for bursts that came before."""

    KEEP = "Keep"
    """As many as the bursts of the last hour would need if they came again."""
    NONE = "None"
    """As many as the present load needs, and no more."""


class DataType(StrEnum):
    """Element types of a KV cache."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    INT8 = "int8"
    FLOAT8 = "float8"

    @property
    def bytes(self) -> int:
        """Bytes an element."""
        return {"float32": 4, "float16": 2, "bfloat16": 2}.get(self.value, 1)


class Precision(StrEnum):
    """Number formats of weights and of a device's peak rate."""

    FLOAT32 = "float32"
    TENSOR_FLOAT32 = "tfloat32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8 = "float8"
    FLOAT4 = "float4"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def bytes(self) -> float:
        """Bytes an element; 4-bit formats include one byte of scale for 32 elements."""
        return _PRECISION_BYTES[self.value]


_PRECISION_BYTES = {
    "float32": 4.0,
    "tfloat32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "float8": 1.0,
    "int8": 1.0,
    "float4": 17 / 32,
    "int4": 17 / 32,
}


class AttentionKind(StrEnum):
    """How a layer retains the past."""

    FULL = "Full"
    """Keys and values of every token (multi-head, grouped or multi-query)."""
    MLA = "MLA"
    """One compressed latent a token."""
    SLIDING = "Sliding"
    """Keys and values of the last `window` tokens."""
    LINEAR = "Linear"
    """A state of fixed size."""
    SPARSE = "Sparse"
    """Reads few tokens, retains all."""
    HYBRID = "Hybrid"
    """Layers of two kinds in a fixed pattern."""


class InterconnectKind(StrEnum):
    """Networks between the devices of one worker."""

    NVLINK = "NVLink"
    INFINITY_FABRIC = "InfinityFabric"
    NEURON_LINK = "NeuronLink"
    ICI = "ICI"
    ETHERNET = "Ethernet"
    PCIE = "PCIe"


class LayoutPreset(StrEnum):
    """Layouts that have a name (see the layouts' documentation for each notation)."""

    ROW_MAJOR = "row-major"
    TOKEN_MAJOR = "token-major"  # noqa: S105 -- a KV token, not a secret
    PAGES_HND = "pages-hnd"
    PAGES_NHD = "pages-nhd"
    PAGES_HND_TOGETHER = "pages-hnd-together"
    PAGES_NHD_TOGETHER = "pages-nhd-together"
    PAGES_HND_INTERLEAVED = "pages-hnd-interleaved"
    TILES_16X16 = "tiles-16x16"
    TILES_32X32 = "tiles-32x32"
    PAGES_TILES_16X16 = "pages-tiles-16x16"
    PAGES_TILES_32X32 = "pages-tiles-32x32"
    NZ = "nz"
    NZ_32 = "nz-32"
    TRANSPOSED = "transposed"
    LATENT = "latent"
    PAGES_LATENT = "pages-latent"

    @property
    def feature_tile(self) -> int:
        """Features a tile: a head dimension must be a multiple of it. 1 where there are no tiles."""
        return _TILES.get(self.value, (1, 1))[1]

    @property
    def token_tile(self) -> int:
        """Tokens a tile; 1 where there are no tiles."""
        return _TILES.get(self.value, (1, 1))[0]


_TILES = {
    "tiles-16x16": (16, 16),
    "tiles-32x32": (32, 32),
    "pages-tiles-16x16": (16, 16),
    "pages-tiles-32x32": (32, 32),
    "nz": (16, 16),
    "nz-32": (16, 32),
}


class Engine(StrEnum):
    """Inference engines whose metrics are known by name."""

    VLLM = "VLLM"
    SGLANG = "SGLang"
    TGI = "TGI"


class ScalingMode(StrEnum):
    """How a decision is carried out."""

    AUTO = "Auto"
    ADVISE = "Advise"
    OFF = "Off"


class Fallback(StrEnum):
    """The replicas that hold when metrics are lost."""

    HOLD = "Hold"
    STARTUP = "Startup"


class Verify(StrEnum):
    """Which transfers are proved by a digest."""

    OFF = "Off"
    SAMPLED = "Sampled"
    ALWAYS = "Always"


class OnFailure(StrEnum):
    """The action for a request whose transfer failed."""

    RESEND = "Resend"
    RECOMPUTE = "Recompute"
    FAIL = "Fail"


class Registration(StrEnum):
    """How a device's memory is made reachable for transfers."""

    HOST = "Host"
    DMA_BUF = "DmaBuf"
    PEER_MEMORY = "PeerMemory"
