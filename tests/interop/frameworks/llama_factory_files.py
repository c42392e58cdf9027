"""Writes the files that LLaMA-Factory reads into FOLDER: a tiny model with random weights, a tokenizer, and a
dataset."""
import json
import pathlib
import sys

import tokenizers
import torch
import transformers

folder = pathlib.Path(sys.argv[1])
vocabulary = {word: index for index, word in enumerate(["<s>", "</s>", "<unk>", *(f"w{i}" for i in range(29))])}
words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                                     pad_token="</s>").save_pretrained(folder / "model")
torch.manual_seed(7)
config = transformers.LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                  num_attention_heads=2, bos_token_id=0, eos_token_id=1, max_position_embeddings=64)
transformers.LlamaForCausalLM(config).save_pretrained(folder / "model")
rows = [{"text": " ".join(f"w{(i * 7 + j * j) % 29}" for j in range(12))} for i in range(128)]
(folder / "rows.json").write_text(json.dumps(rows))
(folder / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json", "columns": {"prompt": "text"}}}))
