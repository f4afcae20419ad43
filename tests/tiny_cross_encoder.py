"""A real cross-encoder in ONNX format that is small enough to be written by a test.

Its score is the number of words that the question and the passage have in common, each as often as it occurs in
both, minus 0.01 for each token of the passage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def write_cross_encoder(folder: Path, texts: Iterable[str], *, length: int = 512, columns: int = 1) -> Path:
    """Write ``model.onnx``, ``tokenizer.json`` and the files that fastembed reads; the vocabulary is that of texts.

    ``columns`` is the number of logits: 2 for a classifier, whose second logit is the score and whose first is 0;
    0 for a model that is not a cross-encoder and returns a number for each token.
    """
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(_model(columns), str(folder / "model.onnx"))
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, value in {
        "config": {"pad_token_id": 0},
        "tokenizer_config": {"model_max_length": length, "pad_token": "[PAD]"},
        "special_tokens_map": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(value), "utf-8")
    return folder


def _model(columns: int) -> onnx.ModelProto:
    make = helper.make_node
    is_word = [make("Greater", ["input_ids", "last_special"], ["words"])]
    of_passage = [make("Greater", ["token_type_ids", "zero"], ["second"]), make("Not", ["second"], ["first"])]
    in_each = [make("And", ["words", "first"], ["question"]), make("And", ["words", "second"], ["passage"])]
    pairs = [
        make("Unsqueeze", ["input_ids", "last"], ["ids_down"]),
        make("Unsqueeze", ["input_ids", "middle"], ["ids_across"]),
        make("Equal", ["ids_down", "ids_across"], ["same"]),
        make("Unsqueeze", ["question", "last"], ["question_down"]),
        make("Unsqueeze", ["passage", "middle"], ["passage_across"]),
        make("And", ["same", "question_down"], ["same_question"]),
        make("And", ["same_question", "passage_across"], ["matches"]),
        make("Cast", ["matches"], ["numbers"], to=TensorProto.FLOAT),
    ]
    score = [
        make("ReduceSum", ["numbers", "both"], ["count"], keepdims=0),
        make("Cast", ["second"], ["second_numbers"], to=TensorProto.FLOAT),
        make("Cast", ["attention_mask"], ["mask_numbers"], to=TensorProto.FLOAT),
        make("Mul", ["second_numbers", "mask_numbers"], ["tokens"]),
        make("ReduceSum", ["tokens", "middle"], ["size"], keepdims=0),
        make("Mul", ["size", "cost"], ["penalty"]),
        make("Sub", ["count", "penalty"], ["score"]),
        make("Unsqueeze", ["score", "middle"], ["column"]),
        make("Sub", ["column", "column"], ["nothing"]),
    ]
    output = {0: "tokens", 1: "column", 2: "logits"}[columns]
    nodes = [*is_word, *of_passage, *in_each, *pairs, *score, make("Concat", ["nothing", "column"], ["logits"], axis=1)]
    names = ("input_ids", "attention_mask", "token_type_ids")
    constants = {
        "last_special": np.array(3, np.int64),
        "zero": np.array(0, np.int64),
        "middle": np.array([1], np.int64),
        "last": np.array([2], np.int64),
        "both": np.array([1, 2], np.int64),
        "cost": np.array(0.01, np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens_"]) for name in names],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", None])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model
