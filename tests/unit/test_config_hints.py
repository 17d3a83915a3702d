"""Laws of the hints: an unknown key is answered by one that exists, a key of another tool by the one that means it."""

from typing import Any

import pytest

from tonetune.config import RunConfig, keys_of, load_config
from tonetune.config.hints import FOREIGN, FOREIGN_PREFIXES
from tonetune.errors import ConfigError

KEYS = keys_of(RunConfig)


def hint(source: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    (problem,) = caught.value.problems
    return problem.rpartition("(try: ")[2].removesuffix(")")


@pytest.mark.parametrize(
    ("source", "nearest"),
    [
        ({"rank": 8}, "lora.rank"),
        ({"epoch": 8}, "train.epochs"),
        ({"learning-rate": 8}, "train.learning_rate"),
        ({"lora": {"rnk": 8}}, "lora.rank"),
        ({"lora": {"learning_rate": 8}}, "train.learning_rate"),
        ({"evaluate": {"seed": 8}}, "evaluate.seeds"),
        ({"train": {"max_len": 8}}, "data.max_length"),
        ({"trian": {"epochs": 8}}, "train"),
    ],
)
def test_an_unknown_key_is_answered_by_the_nearest_of_all_sections(source, nearest):
    assert hint(source) == nearest


def test_a_key_like_no_other_is_answered_by_what_there_is():
    assert hint({"lora": {"zzz": 1}}) == "one of rank, alpha, dropout, targets, variant"
    assert hint({"zzz": 1}).startswith("one of the sections model, data, ")
    assert hint({"zzz": {"rank": 1}}).startswith("one of the sections model, data, ")
    assert "lora: {rank: …}" in hint({"lora.rank": 8})


# Every key that people bring from transformers, LLaMA-Factory, axolotl, ms-swift and AutoTrain, by what they mean.
BROUGHT = {
    "model.base": "model_name_or_path base_model model",
    "lora.rank": "lora_rank lora_r r",
    "lora.alpha": "lora_alpha",
    "lora.dropout": "lora_dropout",
    "lora.targets": "lora_target lora_target_modules lora_target_linear target_modules",
    "lora.variant": "use_rslora use_dora pissa_init peft_use_rslora peft_use_dora peft_init_lora_weights "
    "loraplus_lr_ratio",
    "train.learning_rate": "lr learning_rate",
    "train.batch": "per_device_train_batch_size gradient_accumulation_steps batch_size gradient_accumulation",
    "train.micro_batch_tokens": "micro_batch_size",
    "train.epochs": "num_train_epochs num_epochs epochs",
    "data.max_length": "cutoff_len sequence_len max_length max_seq_length",
    "data.labels": "num_labels id2label label2id",
    "data.task": "problem_type task_type",
    "data.text": "text_column",
    "data.label": "target_column",
    "data.validation": "val_size val_set_size split_dataset_ratio valid_split",
    "train.patience": "early_stopping_steps early_stopping_patience early_stop_interval early_stopping_threshold",
    "run.trackers": "report_to wandb_project mlflow_tracking_uri mlflow_experiment_name use_trackio log",
    "run.dir": "run_name output_dir",
}


@pytest.mark.parametrize(
    ("foreign", "ours"), [(word, ours) for ours, words in BROUGHT.items() for word in words.split()]
)
def test_a_key_of_another_tool_is_answered_by_ours(foreign, ours):
    assert hint({foreign: 1}).split(" ")[0] == ours
    if foreign not in {key.word for key in KEYS.values()}:
        assert hint({"head": {foreign: 1}}).split(" ")[0] == ours


def test_answers_for_other_tools_name_keys_that_exist_and_hide_none_of_ours():
    answers = [*FOREIGN.values(), *FOREIGN_PREFIXES.values()]
    assert len(answers) > 50
    assert {answer.split(" ")[0] for answer in answers} <= set(KEYS)
    assert not {key.word for key in KEYS.values()} & set(FOREIGN)
