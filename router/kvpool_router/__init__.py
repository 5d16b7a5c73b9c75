"""The OpenAI-compatible router in front of the engines of one InferenceGroup."""
