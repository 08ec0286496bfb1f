"""Cases on which tools differ: what they separate, and their files."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import needs

# The cases, and all choices that they must tell apart.
from polars_rank.conformance.cases import CASES, Case
from polars_rank.definitions import ALTERNATIVES, changes
from polars_rank.conformance.reference import METRICS
from polars_rank.conventions import PRESETS

from tests.recorded.tools import full_name

from .case_files import FOLDER, TOPICS
from .named import DEFAULT, changed_value, choices_for, is_same, preset_values

LOG2_3, LOG2_5 = math.log2(3), math.log2(5)


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def values(case: str, metric: str) -> dict[str, Any]:
    """Return the values of a metric in the file of a case, by the names of conventions and tools."""
    (found,) = (each for each in read(case.partition("/")[0])["cases"] if each["name"] == case)
    return {
        name: group["value"]
        for group in found["metrics"][metric]
        for name in (*group["conventions"], *group.get("tools", ()))
    }


def test_files_follow_the_schema() -> None:
    jsonschema = needs.package("jsonschema", "test")
    schema = read("schema")
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in (*TOPICS, "conventions"):
        validator.validate(read(name))
    broken = read("ties")
    broken["cases"][0]["metrics"]["ndcg@1"][0]["value"] = "missing"
    assert not validator.is_valid(broken)


def test_each_topic_has_a_file() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*TOPICS, "conventions", "schema"}
    assert [*dict.fromkeys(case.topic for case in CASES)] == [*TOPICS]


def test_each_case_separates_conventions() -> None:
    for topic in TOPICS:
        data = read(topic)
        for case in data["cases"]:
            separated = {*case["separates"]}
            assert separated and separated <= data["changes"].keys(), case["name"]


def is_separated(case: Case, metric: str, choice: str, value: Any) -> bool:
    """Return whether a change of a choice gives a metric another value in a case."""
    choices = {"decimals": None, **choices_for(full_name(metric, case))}
    if {choice: value} not in [*changes(choices)]:
        return choices.get(choice) == value
    default = changed_value(case, choices, {})
    return not is_same(default, changed_value(case, choices, {choice: value}))


def test_each_change_of_a_choice_has_another_value_in_a_case() -> None:
    for choice, values in ALTERNATIVES.items():
        for value in values:
            pairs = product(CASES, METRICS)
            assert any(is_separated(*pair, choice, value) for pair in pairs), (choice, value)


def test_the_reference_has_the_values_of_presets() -> None:
    cases = {case.name: case for case in CASES}
    for preset in (DEFAULT.name, *(each.name for each in PRESETS)):
        known = preset_values(preset)
        for (case, name), value in known.items():
            choices = choices_for(name, preset)
            found = changed_value(cases[case], choices, {})
            assert is_same(value, found), (case, name, value, found, choices)
        # The metrics of ndeval are about subtopics.
        assert {case for case, _ in known} == ({*cases} if preset != "ndeval" else set())


PLAIN = DEFAULT.name
#: A case, a metric, a convention or tool, and the value by visible arithmetic.
VALUES = [
    ("discount/second-rank", "ndcg@2", PLAIN, 1 / LOG2_3),
    ("discount/second-rank", "ndcg@2", "discount=log2(rank + 2)", LOG2_3 / 2),
    ("discount/second-rank", "ndcg@2", "discount=jarvelin", 1),
    ("discount/fourth-rank", "dcg@4", PLAIN, 1 / LOG2_5),
    ("divisor/every-rule", "average_precision@5", PLAIN, (1 + 2 / 3) / 6),
    ("divisor/every-rule", "average_precision@5", "norm=min", (1 + 2 / 3) / 5),
    ("divisor/every-rule", "average_precision@5", "norm=retrieved", (1 + 2 / 3) / 4),
    ("divisor/every-rule", "average_precision@5", "norm=hits", (1 + 2 / 3) / 2),
    ("copies/relevant-last", "average_precision@3", "duplicates=credited", 1 / 2 + 2 / 3),
    ("copies/relevant-last", "average_precision@3", "duplicates=uncredited", 1 / 2),
    ("copies/relevant-last", "average_precision@3", "duplicates=max", 1 / 2),
    ("copies/relevant-last", "average_precision@3", PLAIN, "error"),
    ("copies/relevant-last", "average_precision@3", "trec_eval 10.0-rc3", "error"),
    ("ties/three-for-two-ranks", "precision@2", "ties=expected", 2 / 3 / 2),
    ("unretrieved/best", "ndcg@2", PLAIN, 1 / (3 + 1 / LOG2_3)),
    ("unretrieved/best", "ndcg@2", "ideal=retrieved", 1),
    ("unretrieved/best", "ndcg@2", "LightGBM 4.7.0", 1),
    ("gain/two-grades", "dcg@2", "gain=exp2", 1 + 7 / LOG2_3),
    ("empty/nothing-retrieved", "precision@2", "trec_eval 9", None),
]


def test_values_by_visible_arithmetic() -> None:
    wrong = [
        row for *row, expected in VALUES
        if not is_same(values(*row[:2])[row[2]], expected, tolerance=1e-14)
    ]  # fmt: skip
    assert not wrong
