"""Start vLLM once on a tiny model and generate: `python3 prove.py FOLDER`. Fails unless tokens come out.

Also imports what an engine process imports beside this, so that its byte code is there from then on.
"""

import importlib
import sys

_SERVER_MODULES = ("vllm.entrypoints.openai.api_server",)


def main(folder: str) -> None:
    """Make the model in `folder` and generate eight tokens with it."""
    tiny_model = importlib.import_module("tiny_model")  # it lies beside this file
    tiny_model.save_model(folder, tiny_model.save_tokenizer(folder))
    for name in _SERVER_MODULES:
        importlib.import_module(name)
    from vllm import LLM, SamplingParams

    engine = LLM(model=folder, enforce_eager=True, max_model_len=256, block_size=32, num_gpu_blocks_override=16)
    sampling = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True)
    (answer,) = engine.generate(["the quick brown fox"], sampling, use_tqdm=False)
    if len(answer.outputs[0].token_ids) != 8:
        sys.exit(f"vLLM generated {answer.outputs[0].token_ids} where 8 tokens were asked for")
    engine.llm_engine.engine_core.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
