"""What a person meant by a key that tonetune does not have: a key of another tool, or a slip of the keyboard."""

import difflib
from collections.abc import Iterable, Mapping

from tonetune.config.keys import Key

_STEPS = "train.batch (texts per step over all devices; there is nothing to accumulate)"
_SPLIT = "data.validation (a file; without one, rows are split 70/15/15)"
_NUMERICS = "model.dtype (auto, float32, bfloat16 or float16)"

# Keys of transformers, PEFT, LLaMA-Factory, axolotl, ms-swift and AutoTrain, and the key of ours that they mean.
FOREIGN: dict[str, str] = {
    "base_model": "model.base",
    "model": "model.base",
    "model_name": "model.base",
    "model_name_or_path": "model.base",
    "model_type": "model.base (its type is read from its own config)",
    "torch_dtype": _NUMERICS,
    "bf16": _NUMERICS,
    "fp16": _NUMERICS,
    "mixed_precision": _NUMERICS,
    "load_in_4bit": "model.quantization (4bit)",
    "load_in_8bit": "model.quantization (8bit)",
    "quantization_bit": "model.quantization (4bit or 8bit)",
    "quant_bits": "model.quantization (4bit or 8bit)",
    "attn_implementation": "model.attention",
    "flash_attn": "model.attention",
    "data": "data.train",
    "dataset": "data.train",
    "datasets": "data.train",
    "data_path": "data.train",
    "train_file": "data.train",
    "train_split": "data.train",
    "val_size": _SPLIT,
    "val_set_size": _SPLIT,
    "split_dataset_ratio": _SPLIT,
    "valid_split": _SPLIT,
    "validation_file": "data.validation",
    "test_file": "data.test",
    "text_column": "data.text",
    "target_column": "data.label",
    "label_column": "data.label",
    "num_labels": "data.labels (their number follows)",
    "id2label": "data.labels",
    "label2id": "data.labels",
    "problem_type": "data.task",
    "task_type": "data.task",
    "cutoff_len": "data.max_length",
    "sequence_len": "data.max_length",
    "max_seq_length": "data.max_length",
    "max_seq_len": "data.max_length",
    "chat_template": "prompt.template",
    "r": "lora.rank",
    "lora_r": "lora.rank",
    "lora_rank": "lora.rank",
    "lora_alpha": "lora.alpha",
    "lora_dropout": "lora.dropout",
    "lora_target": "lora.targets",
    "lora_target_linear": "lora.targets (all-linear)",
    "lora_target_modules": "lora.targets",
    "target_modules": "lora.targets",
    "use_rslora": "lora.variant (rslora)",
    "use_dora": "lora.variant (dora)",
    "peft_use_rslora": "lora.variant (rslora)",
    "peft_use_dora": "lora.variant (dora)",
    "pissa_init": "lora.variant (pissa)",
    "peft_init_lora_weights": "lora.variant (pissa, or B starts at zero)",
    "init_lora_weights": "lora.variant (pissa, or B starts at zero)",
    "loraplus_lr_ratio": "lora.variant (loraplus)",
    "num_epochs": "train.epochs",
    "num_train_epochs": "train.epochs",
    "max_steps": "train.epochs (fractions are allowed)",
    "batch_size": "train.batch",
    "train_batch_size": "train.batch",
    "per_device_train_batch_size": _STEPS,
    "gradient_accumulation": _STEPS,
    "gradient_accumulation_steps": _STEPS,
    "micro_batch_size": "train.micro_batch_tokens (counts tokens; auto is best) or train.batch",
    "per_device_eval_batch_size": "train.micro_batch_tokens (counts tokens; auto is best)",
    "lr": "train.learning_rate",
    "lr_scheduler": "train.schedule",
    "lr_scheduler_type": "train.schedule",
    "warmup_ratio": "train.warmup",
    "warmup_steps": "train.warmup (a fraction of all steps)",
    "max_grad_norm": "train.clip",
    "class_weight": "train.class_weights (none or balanced)",
    "eval_steps": "train.evaluate_every",
    "early_stop_interval": "train.patience",
    "early_stopping_steps": "train.patience",
    "early_stopping_patience": "train.patience",
    "early_stopping_threshold": "train.patience (any gain counts)",
    "gradient_checkpointing": "train.checkpointing",
    "torch_compile": "train.compile",
    "metric_for_best_model": "evaluate.select_by",
    "save_steps": "run.checkpoint_steps",
    "save_strategy": "run.checkpoint_steps and run.checkpoint_minutes",
    "save_total_limit": "run.keep_checkpoints",
    "load_best_model_at_end": "evaluate.select_by (the best is always taken)",
    "resume_from_checkpoint": "run.dir (the run to go on with is named by the flag --resume)",
    "output_dir": "run.dir",
    "project_name": "run.dir",
    "run_name": "run.dir (a run is named by its time)",
    "report_to": "run.trackers",
    "use_trackio": "run.trackers",
    "log": "run.trackers",
}
FOREIGN_PREFIXES: dict[str, str] = {"wandb_": "run.trackers", "mlflow_": "run.trackers", "comet_": "run.trackers"}


def hint_for(name: str, section: str | None, keys: Mapping[str, Key], *, is_section: bool) -> str:
    """What to write instead of the unknown key `name`, found in `section` or (None) at the top.

    `is_section`: whether it stands over keys of its own, so that only a section can be meant.
    """
    sections = list(dict.fromkeys(key.section for key in keys.values()))
    if is_section and section is None:
        near = _closest(name, sections)
        return near[0] if near else f"one of the sections {', '.join(sections)}"
    if name in keys and section is None:
        return f"{keys[name].section}: {{{keys[name].word}: …}} (a key stands below its section)"
    foreign = _foreign(name.lower().replace("-", "_"))
    words = {key.word: key.name for key in keys.values()}
    siblings = [key.word for key in keys.values() if key.section == section]
    near = _closest(name, siblings, cutoff=0.75) or _closest(name, words)
    if foreign or near:
        return foreign or words[near[0]]
    if section is None:
        return f"one of the sections {', '.join(sections)}"
    return f"one of {', '.join(siblings)}"


def _foreign(name: str) -> str | None:
    by_prefix = (ours for prefix, ours in FOREIGN_PREFIXES.items() if name.startswith(prefix))
    return FOREIGN.get(name) or next(by_prefix, None)


def _closest(name: str, words: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    return difflib.get_close_matches(name, words, n=1, cutoff=cutoff)
