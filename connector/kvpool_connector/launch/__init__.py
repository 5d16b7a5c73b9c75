"""The first process of an engine pod: from the environment contract to a running vLLM.

It renders the store's configuration, checks what only the node can know, waits for the store, and becomes vLLM. What
goes wrong is one line in the container's termination message, which the operator shows as a condition.
"""
