"""Laws of the scikit-learn estimator: it is one, and it trains and predicts as the rest of tonetune does."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import tiny
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import tonetune
from tonetune.api.estimator import KEYS, LoraTextClassifier
from tonetune.config import RunConfig, keys_of, load_config
from tonetune.errors import ConfigError, DataError, UsageError
from tonetune.rundir import RunDir, read_json, read_jsonl

TINY = {"model": {"load_gate": "off", "dtype": "float32"}, "train": {"evaluate_every": 1000}}

OF_ARRAYS = {
    "check_n_features_in": "texts have no features to count",
    "check_n_features_in_after_fitting": "texts have no features to count",
    "check_estimators_nan_inf": "a text is neither NaN nor infinite",
    "check_estimators_empty_data_messages": "texts have no features, so none can be missing",
    "check_estimator_sparse_tag": "texts do not come as sparse matrices",
    "check_estimator_sparse_array": "texts do not come as sparse matrices",
    "check_estimator_sparse_matrix": "texts do not come as sparse matrices",
    "check_fit1d": "one dimension is what texts have",
    "check_fit2d_predict1d": "one dimension is what texts have",
}
"""Checks of scikit-learn that ask something of arrays of numbers, and so nothing of texts."""


class NumbersAsTexts(LoraTextClassifier):
    """The estimator behind a step that writes each row of numbers as a text, so that scikit-learn's checks can run."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        tags.classifier_tags.poor_score = True  # a random model cannot read numbers
        return tags

    def fit(self, X, y):
        self._width = np.asarray(X).shape[1]
        return super().fit(self._written(X), y)

    def predict_proba(self, X):
        return super().predict_proba(self._written(X) if hasattr(self, "classes_") else [])

    def _written(self, X):
        numbers = np.asarray(X)
        if numbers.shape[1] != self._width:
            raise ValueError(f"{numbers.shape[1]} numbers in a row, {self._width} in fit")
        return [" ".join(f"{number:.2f}" for number in row) for row in numbers]


@pytest.fixture
def estimator(tiny_gemma):
    return LoraTextClassifier(str(tiny_gemma), epochs=1, max_length=64, config=TINY)


@pytest.fixture(scope="module")
def rows():
    texts, labels = zip(*tiny.emotion_rows("en", 64), strict=True)
    return list(texts), np.array(labels)


@pytest.fixture(scope="module")
def fitted(tiny_gemma, rows, tmp_path_factory):
    """Fitted on `rows`, its run kept; never fit it again."""
    runs = tmp_path_factory.mktemp("runs")
    return LoraTextClassifier(str(tiny_gemma), epochs=1, max_length=64, config=TINY, run_dir=runs).fit(*rows)


# --- scikit-learn's own checks


def test_scikit_learn_finds_nothing_wrong_with_the_class_itself(estimator):
    with pytest.warns(match="Can't test estimator LoraTextClassifier"):
        results = check_estimator(estimator)
    assert [result["status"] for result in results] == ["passed"], "without numbers only cloning is checked"
    tags = get_tags(estimator)
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_passes_every_check_of_scikit_learn_that_numbers_written_as_texts_can_run(tiny_gemma):
    estimator = NumbersAsTexts(str(tiny_gemma), epochs=1, max_length=32, config=TINY)
    results = check_estimator(estimator, expected_failed_checks=OF_ARRAYS, on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(OF_ARRAYS), "each listed one is needed"
    needs_more = {"check_array_api_input", "check_classifier_data_not_an_array"}  # the latter wants pandas
    needs_more.add("check_classifiers_multilabel_output_format_decision_function")  # there are only probabilities
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= needs_more
    assert sum(r["status"] == "passed" for r in results) > 35


def test_the_checks_that_do_not_apply_exist(tiny_gemma):
    checks = estimator_checks_generator(NumbersAsTexts(str(tiny_gemma)))
    names = {getattr(check.func, "func", check.func).__name__ for _, check in checks}
    assert set(OF_ARRAYS) <= names


# --- parameters


def test_each_parameter_sets_a_key_of_the_config_and_defaults_to_none():
    parameters = LoraTextClassifier().get_params()
    assert set(KEYS) == set(parameters) - {"config", "validation_fraction", "verbose"}
    assert set(KEYS.values()) <= set(keys_of(RunConfig))
    assert {name: value for name, value in parameters.items() if value is not None} == {"verbose": False}


def test_parameters_reach_the_run_and_all_else_is_the_config_s(fitted, tiny_gemma):
    config = load_config(RunDir.open(fitted.run_).config)
    assert config.model.base == str(tiny_gemma)
    assert (config.train.epochs, config.data.max_length, config.train.evaluate_every) == (1.0, 64, 1000)
    assert config.lora == RunConfig().lora and config.train.seed == RunConfig().train.seed


def test_parameters_of_numpy_and_labels_that_are_numbers_are_taken(estimator):
    estimator.set_params(epochs=np.float64(2), batch=np.int64(8), words={0: "bad", 1: "good"})
    config = estimator.set_params(random_state=np.random.RandomState(0))._config()
    assert (config.train.epochs, config.train.batch, config.prompt.words) == (2.0, 8, {"0": "bad", "1": "good"})
    assert 0 <= config.train.seed < 2**32


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"epochs": -1, "rank": 0}, "train.epochs"),
        ({"config": {"data": {"train": "a.csv"}}}, "data.train"),
        ({"config": {"run": {"dir": "elsewhere"}}}, "run.dir"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
    ],
)
def test_parameters_that_cannot_be_are_refused_before_anything_is_written(rows, tmp_path, parameters, said):
    estimator = LoraTextClassifier(run_dir=tmp_path, **parameters)
    with pytest.raises(UsageError) as caught:
        estimator.fit(*rows)
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_two_wrong_parameters_are_said_at_once(estimator, rows):
    with pytest.raises(ConfigError) as caught:
        estimator.set_params(epochs=-1, rank=0).fit(*rows)
    assert len(caught.value.problems) == 2


# --- rows


def test_every_row_is_trained_on_or_held_back_for_validation(fitted, rows):
    run = RunDir.open(fitted.run_)
    train, validation = (read_jsonl(run.split(name)) for name in ("train", "validation"))
    assert not run.split("test").exists()
    assert sorted(row["text"] for row in train + validation) == sorted(rows[0])
    assert len(validation) == pytest.approx(0.15 * len(rows[0]), abs=len(fitted.classes_))
    for row in train + validation:
        position = int(row["origin"].removeprefix("row "))
        assert (row["text"], row["label"]) == (rows[0][position], rows[1][position])


def test_the_fraction_held_back_is_the_one_asked_for(estimator, rows, tmp_path):
    run = RunDir.open(estimator.set_params(validation_fraction=0.5, run_dir=tmp_path).fit(*rows).run_)
    assert len(read_jsonl(run.split("train"))) == len(read_jsonl(run.split("validation"))) == len(rows[0]) // 2


def test_repeats_are_trained_on_once_and_contradictions_not_at_all(estimator, rows, tmp_path):
    texts, labels = [*rows[0], rows[0][0], rows[0][1]], [*rows[1], rows[1][0], rows[1][0]]
    run = RunDir.open(estimator.set_params(run_dir=tmp_path).fit(texts, labels).run_)
    assert read_json(run.data)["dropped"] == {"duplicate": 1, "contradiction": 2}


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        ("happy", ["a"], "a single text"),
        (np.array([["happy"], ["sad"]]), ["a", "b"], r"shape \(2, 1\)"),
        (["happy", None], ["a", "b"], "row 1: a text is expected, found NoneType"),
        (["happy", "sad"], ["a", "a"], "one class, 'a'"),
        (["happy", "sad"], ["a", "b"], "at least 2 are needed, one for each of train, validation"),
        ([], [], "."),
        (["happy", "sad"], ["a"], "inconsistent numbers of samples"),
        (["happy", "sad"], [0.5, 1.7], "Unknown label type"),
        (["happy", "sad"], [1.0, np.nan], "NaN"),
        (["happy", "sad"], None, "y should be a 1d array"),
    ],
)
def test_rows_that_cannot_be_are_a_value_error_that_says_why(estimator, texts, labels, said):
    with pytest.raises(ValueError, match=said):
        estimator.fit(texts, labels)


def test_texts_that_cannot_be_predicted_are_a_data_error(fitted):
    for texts in ("happy", ["happy", 3], ["happy", " "]):
        with pytest.raises(DataError):
            fitted.predict(texts)


def test_an_estimator_that_was_not_fitted_says_so(estimator):
    with pytest.raises(NotFittedError):
        estimator.predict(["happy"])


# --- predictions


def test_it_predicts_as_the_classifier_of_its_run(fitted, rows):
    texts = rows[0][:8]
    classifier = tonetune.load(fitted.run_)
    assert tuple(fitted.classes_) == classifier.labels
    np.testing.assert_array_equal(fitted.predict_proba(texts), classifier.predict_proba(texts))
    assert list(fitted.predict(texts)) == [prediction.label for prediction in classifier.predict(texts)]
    assert fitted.score(*rows) == np.mean(fitted.predict(rows[0]) == rows[1])


@pytest.mark.parametrize(
    "classes",
    [np.array([-1, 2, 10], dtype=np.int8), np.array([0.0, 1.0]), np.array([False, True]), np.array(["10", "9"])],
    ids=lambda classes: classes.dtype.name,
)
def test_labels_come_back_as_they_were_given(estimator, classes):
    """Text sorts "10" before "9" and numbers -1 before 2: columns follow `classes_`, whatever the names look like."""
    texts = [text for text, _ in tiny.emotion_rows("en", 36)]
    labels = classes[np.arange(36) % len(classes)]
    estimator.fit(texts, labels)
    predicted = estimator.predict(texts)
    np.testing.assert_array_equal(estimator.classes_, np.unique(labels))
    assert predicted.dtype == estimator.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(predicted, estimator.classes_[estimator.predict_proba(texts).argmax(axis=1)])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_probabilities_and_another_does_not(estimator, rows):
    texts = rows[0][:8]
    first, second = (clone(estimator).set_params(random_state=1).fit(*rows).predict_proba(texts) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, estimator.set_params(random_state=2).fit(*rows).predict_proba(texts))


# --- files, pickles, model selection


def test_without_a_directory_nothing_is_left_on_disk(estimator, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert estimator.fit(*rows).run_ is None
    estimator.predict(rows[0][:2])
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_kept_is_whole(fitted):
    run = RunDir.open(fitted.run_)
    assert read_json(run.record)["status"] == "finished"
    assert "no test rows were set aside" in run.card.read_text(encoding="utf-8")
    assert not run.evaluation("test").exists() and run.evaluation("validation").is_dir()


@pytest.mark.parametrize("copied", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_predicts_the_same_even_without_the_run(tiny_gemma, rows, tmp_path, copied):
    fitted = LoraTextClassifier(str(tiny_gemma), epochs=1, config=TINY, run_dir=tmp_path / "runs").fit(*rows)
    (tmp_path / "runs").rename(tmp_path / "gone")
    texts = rows[0][:4]
    before = fitted.predict_proba(texts)
    np.testing.assert_array_equal(copied(fitted).predict_proba(texts), before)


def test_a_clone_has_the_parameters_and_is_not_fitted(fitted):
    cloned = clone(fitted)
    assert cloned.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        cloned.predict(["happy"])


@pytest.mark.slow
def test_a_grid_search_chooses_among_parameters_in_a_pipeline(estimator, rows):
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), estimator)
    search = GridSearchCV(pipeline, {"loratextclassifier__rank": [1, 2]}, cv=2, error_score="raise").fit(*rows)
    assert search.best_params_["loratextclassifier__rank"] in (1, 2)
    assert set(search.predict(rows[0])) <= set(rows[1])


@pytest.mark.slow
def test_estimators_come_back_whole_from_other_processes(estimator, rows, tmp_path: Path):
    estimator.set_params(run_dir=tmp_path)
    result = cross_validate(estimator, *rows, cv=2, n_jobs=2, return_estimator=True, error_score="raise")
    for fitted in result["estimator"]:
        assert fitted.predict_proba(rows[0][:2]).shape == (2, 4)


@pytest.mark.slow
def test_a_matrix_of_zeros_and_ones_makes_it_multi_label(tiny_gemma):
    texts, sets = zip(*tiny.emotion_sets("en", 64), strict=True)
    names = list(tiny.CUES["en"])
    indicator = np.array([[name in labels for name in names] for labels in sets]).astype(int)
    words = dict(enumerate(names))
    estimator = LoraTextClassifier(str(tiny_gemma), epochs=1, max_length=64, words=words, config=TINY)
    found = estimator.fit(list(texts), indicator).predict(list(texts[:9]))
    assert found.shape == (9, 4) and set(np.unique(found)) <= {0, 1}
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    thresholds = [*estimator._adapter.classifier.thresholds.values()]
    assert np.array_equal(found, estimator.predict_proba(list(texts[:9])) > thresholds)
    assert 0.0 <= estimator.score(list(texts), indicator) <= 1.0
    with pytest.raises(ValueError, match="inconsistent"):
        estimator.fit(list(texts[:5]), indicator)
