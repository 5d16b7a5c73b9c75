"""Make a Llama of 138,000 parameters with its tokenizer: `python3 tiny_model.py FOLDER`, with transformers at hand.

A program of its own, since the packages it imports are the engine's. The weights come from a fixed seed; they are
spread wide, so that greedy output varies and one wrong KV block changes the text.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_END = "<|endoftext|>"
_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
_TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "a pool of key and value blocks shared by all engines",
    "system: user: assistant: ",
]


def save_tokenizer(folder: str) -> int:
    """Save a byte-level tokenizer that knows every text; gives the size of its vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=384, special_tokens=[_END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_TEXTS * 20, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END, pad_token=_END)
    fast.chat_template = _CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return int(tokenizer.get_vocab_size())


def save_model(folder: str, vocabulary: int) -> None:
    """Save the model with random weights of a fixed seed."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
        dtype="float32",
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    save_model(sys.argv[1], save_tokenizer(sys.argv[1]))
