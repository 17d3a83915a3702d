"""The baseline without training: scores of labels by the words that the language model would say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonetune.api.results import Scored
from tonetune.api.setup import Prompt, Split
from tonetune.data.duplicates import first_by_hash
from tonetune.data.splits import TEST, TRAIN, VALIDATION
from tonetune.data.template import Template, with_turns
from tonetune.evaluation.baselines import zero_shot_calibrated
from tonetune.evaluation.calibration import log_softmax
from tonetune.evaluation.multi_tally import mean_precision
from tonetune.evaluation.predict import Scorer
from tonetune.labels import MULTI_LABEL
from tonetune.model.artefact import text_tokenizer
from tonetune.model.classifier import Classifier
from tonetune.model.head import LabelWords, flat_ids, head_from_words, words_of
from tonetune.model.loading import Base
from tonetune.progress import Reporter

# N = texts, C = labels

REFERENCE_TEXTS = 128
"""Training texts, without labels, on which the bias of the label words is estimated."""
SAMPLE_PROMPTS = 2_000
"""Questions by which yes and no are held against the label words, on validation texts."""
MOST_PROMPTS = {"cpu": 20_000}
GPU_PROMPTS = 500_000
"""Questions of yes or no that a baseline may cost, by device: one for each text and label."""
QUESTIONS = {"zh": "{text}\n心情是“WORD”吗？是或否：", "en": "{text}\nEmotion: WORD? Yes or no:"}
YES_NO = {"zh": ("是", "否"), "en": ("yes", "no")}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ZeroShot:
    """An untrained classifier whose head starts from the label words of `prompt`, behind `scorer`."""

    task_name: str
    base: Base
    prompt: Prompt
    words: LabelWords
    scorer: Scorer
    reporter: Reporter

    def scores(self, splits: Mapping[str, Split]) -> tuple[dict[str, Scored], dict[str, Any]]:
        """The scores "zero_shot" and "zero_shot_calibrated", and what the report says of how the latter came about.

        For texts of one label the second are the log-scores of the words less their mean over training texts. For
        texts of any number of labels validation chooses between them and a question of yes or no for each label, by
        average precision.
        """
        multi_label = self.task_name == MULTI_LABEL
        names = (VALIDATION, TEST) if multi_label else (TEST,)
        sample = [example.text for example in first_by_hash(splits[TRAIN].examples, REFERENCE_TEXTS)]
        with self.reporter.bar("zero-shot", sum(len(splits[name].texts) for name in names) + len(sample)) as bar:
            raw = {name: self.scorer.score(splits[name].store, done=bar.advance) for name in names}
            reference = self.scorer.score(self.scorer.store(self.scorer.tokenizer.encode(sample).ids), done=bar.advance)
        reference_NC = log_softmax(reference, 1.0)
        corrected = {name: zero_shot_calibrated(log_softmax(part, 1.0), reference_NC) for name, part in raw.items()}
        chosen: dict[str, Any] = {}
        if multi_label:
            corrected, chosen = self._preferred(corrected, splits)
        return {
            "zero_shot": Scored(raw[TEST], raw.get(VALIDATION)),
            "zero_shot_calibrated": Scored(corrected[TEST], corrected.get(VALIDATION)),
        }, chosen

    def _preferred(
        self, words: dict[str, Floats], splits: Mapping[str, Split]
    ) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Scores by the words, or by yes and no where these rank validation texts better; and why."""
        num_labels = len(self.words.words)
        num_prompts = num_labels * sum(len(splits[name].texts) for name in words)
        most = MOST_PROMPTS.get(self.scorer.classifier.device.type, GPU_PROMPTS)
        if num_prompts > most:
            why = f"yes and no were not asked: {num_prompts:,} questions, at most {most:,} are asked on this device"
            return words, {"zero_shot_choice": {"method": "words", "average_precision": None, "texts": 0, "note": why}}
        validation = splits[VALIDATION]
        rows = np.arange(min(len(validation.texts), max(1, SAMPLE_PROMPTS // num_labels)))
        gold = validation.gold[rows]
        asked = self._yes_over_no([validation.texts[i] for i in rows])
        found = {
            "words": mean_precision(gold, words[VALIDATION][rows]),
            "yes_no": mean_precision(gold, asked),
        }
        method = max(found, key=lambda name: found[name])
        if method == "yes_no":
            words = {name: self._yes_over_no(splits[name].texts) for name in words}
        choice = {"method": method, "average_precision": found, "texts": len(rows), "note": None}
        return words, {"zero_shot_choice": choice}

    def _yes_over_no(self, texts: Sequence[str]) -> Floats:
        """By how much the model would rather say yes than no to each label of each text, shape (N, C), in logits."""
        columns = []
        with self.reporter.bar("zero-shot, yes or no", len(texts) * len(self.words.words)) as bar:
            for word in self.words.words:
                scorer = self._asking(word)
                logits_N2 = scorer.score(scorer.store(scorer.tokenizer.encode(texts).ids), done=bar.advance)
                columns.append(logits_N2[:, 0].astype(np.float64) - logits_N2[:, 1])
        return np.stack(columns, axis=1)

    def _asking(self, word: str) -> Scorer:
        """A classifier of two labels, yes and no, behind the question for a word."""
        language, plain = self.prompt.language, word.replace("{", "").replace("}", "")
        source = with_turns(QUESTIONS[language].replace("WORD", plain), self.prompt.template.num_turns)
        source = self.base.chat.around(source) if self.base.chat else source
        max_length = self.prompt.tokenizer.max_length + len(source)  # room for the question too
        tokenizer = text_tokenizer(self.base, template=Template.parse(source), max_length=max_length)
        yes_no = words_of(YES_NO[language], tokenizer)
        classifier = Classifier(self.base.body, head_from_words(yes_no, self.base.lm_head_rows(flat_ids(yes_no))))
        return Scorer(classifier, tokenizer, self.scorer.budget_tokens, self.scorer.call_tokens)
