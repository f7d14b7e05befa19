"""An example of each command, which its help shows at the end."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "validate": "hawk validate pool.yaml classes.yaml",
    "status": "hawk status llama --namespace default --check",
    "kv": "hawk kv --model llama-3.3-70b --tokens 32768 --link-gbps 400",
    "plan": "hawk plan -f pool.yaml --requests-per-second 12 --prompt-tokens 8192 --output-tokens 256",
    "payoff pd": "hawk payoff pd --model mistral-7b-instruct-v0.2 --prompt-tokens 16384 --output-tokens 128"
    " --link-gbps 200 --decode-saving-ms-per-token 0.5 --hidden 0.5",
    "payoff afd": "hawk payoff afd --model mixtral-8x7b-v0.1 --batch 128 --link-gbps 200 --ffn-saving-ms 2",
    "payoff td": "hawk payoff td --model mistral-7b-instruct-v0.2 --draft-tokens 8 --feature-vectors 8"
    " --link-gbps 200",
    "payoff pipeline": "hawk payoff pipeline --model llama-3.3-70b --tokens 32768 --chunk-layers 16"
    " --compute-ms-per-chunk 18.2 --rails 4 --link-gbps 400",
    "payoff offload": "hawk payoff offload --step-ms-here 40 --step-ms-there 22 --transfer-ms 90"
    " --remaining-tokens 300",
    "payoff prefix": "hawk payoff prefix --model llama-3.3-70b --prefix-tokens 8192 --path-gbps 180"
    " --recompute-ms 900 --suffix-ms-here 60 --suffix-ms-there 60 --queue-ms-there 400",
    "payoff path": "hawk payoff path --path-gbps 180",
    "payoff bottleneck": "hawk payoff bottleneck --prefill-share-of-decode-gaps 0.35 --draft-acceptance 0.7",
    "payoff times": "hawk payoff times --model llama-3.1-8b --model-path meta-llama/Meta-Llama-3.1-8B"
    " --accelerator-class h100-sxm5 --system h100_sxm --backend vllm",
    "payoff published": "hawk payoff published --output json",
    "payoff systems": "hawk payoff systems --output json",
    "payoff devices": "hawk payoff devices --output json",
    "layout convert": "hawk layout convert --from 'b h s d' --to 'b h s1 d1 s0 d0'"
    " --sizes b=1,h=8,s=37,d=128,s0=16,d0=16 rows.bin tiles.bin",
    "layout explain": "hawk layout explain --from pages-hnd --to tiles-16x16"
    " --sizes l=80,c=2,h=8,s=32768,d=128",
    "layout presets": "hawk layout presets --output json",
    "layout ranks": "hawk layout ranks --heads 8 --source-ranks 4 --destination-ranks 2",
    "bench copy": "hawk bench copy --mib 64 --baseline nixl",
    "bench descriptors": "hawk bench descriptors --mib 4 --rounds 9",
    "bench tcp": "hawk bench tcp --mib 64 --rounds 9",
    "bench plan": "hawk bench plan --from pages-hnd --to tiles-16x16",
    "bench verbs": "hawk bench verbs --rounds 15",
    "doctor": "hawk doctor --system-namespace hawk-system",
    "cleanup": "hawk cleanup --system-namespace hawk-system",
    "simulate": "hawk simulate --trace diurnal --pool pool.yaml --policy hawk --policy hpa",
}
"""By the words of the command after `hawk`."""


def epilog(command: str) -> str:
    """The end of a command's help, kept on one line so that it can be copied."""
    return f"\b\nExample:\n  {EXAMPLES[command]}"
