"""The kvpool operator: KVPool and InferenceGroup objects become stores, engines and a router."""
