"""Small tokenizers of other families, as their tokenizer.json documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = ["hello world", "hello there, old friend", "who holds the permits", "relay the tokens to the world"] * 5


def word_piece() -> Tokenizer:
    """BERT's kind: lower case, no accents, two special tokens around every text."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "hi", "cafe", "at", "世", ",", "!", "world", "don", "'", "t"]
    vocabulary = {word: index for index, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return made


def byte_bpe(*, think: bool = True) -> Tokenizer:
    """Llama 3's kind: byte-level BPE, a begin-of-text added by the post-processor, an added token that is not special."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES,
        trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, special_tokens=["<|begin|>", "<|im_end|>"]),
    )
    if think:
        made.add_tokens([AddedToken("</think>", normalized=False, special=False)])
    made.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<|begin|> $A", special_tokens=[("<|begin|>", made.token_to_id("<|begin|>"))]
            ),
        ]
    )
    return made


def unigram() -> Tokenizer:
    """T5's kind: a Unigram vocabulary that holds its control tokens as pieces."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
    )
    return made


def document(tokenizer: Tokenizer) -> dict[str, Any]:
    """What its tokenizer.json holds."""
    found: dict[str, Any] = json.loads(tokenizer.to_str())
    return found


def written(tokenizer: Tokenizer, folder: Path) -> Path:
    """Its tokenizer.json in a folder, with what AutoTokenizer wants beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return folder
