"""kvpool inside the engine: the environment contract, the launcher and the vLLM KV connector."""
