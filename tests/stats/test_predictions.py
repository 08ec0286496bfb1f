"""Estimates from human values of some queries and predicted values of all."""

import math
import warnings

import numpy as np
import needs
import polars as pl
import polars_rank as pr
import pytest
import scipy
from polars.testing import assert_frame_equal
from polars_rank.stats.proportions import tango

N, OTHERS = 40, 300
COLUMNS = ["predicted", "judge_weight", "effective_queries"]


def tables(seed=0, noise=0.2, n=N, others=OTHERS):
    """Return values by human labels of n queries, and by predicted labels of all."""
    random = np.random.default_rng(seed)
    query = np.arange(n + others)
    human, predicted = [], []
    for run, shift in (("a", 0.0), ("b", 0.1)):
        x = random.random(n + others) + shift
        both = pl.DataFrame({
            "run": run, "query": query, "user": query % 60, "w": 1.0 + query % 5,
            "country": query % 2, "x": x, "judge": x + random.normal(0, noise, n + others),
        })  # fmt: skip
        human.append(both.head(n).drop("judge"))
        predicted.append(both.drop("x").rename({"judge": "x"}))
    return pl.concat(human), pl.concat(predicted)


VALUES, PREDICTED = tables()


def arrays(run="b", baseline=None):
    """Return H and J of human queries, and J of the others."""
    human, judge = (
        table.filter(run=run)["x"].to_numpy()
        - (0 if baseline is None else table.filter(run=baseline)["x"].to_numpy())
        for table in (VALUES, PREDICTED)
    )
    return human, judge[:N], judge[N:]


def expected(human, judge, others):
    """Return the estimate, its standard error, and the weight of the judge."""
    n, m, every = len(human), len(others), np.concatenate([judge, others])
    covariance = ((human - human.mean()) * (judge - judge.mean())).mean()
    weight = min(max(covariance / ((1 + n / m) * every.var(ddof=1)), 0), 1)
    rest = human - weight * judge
    square = ((rest - rest.mean()) ** 2).sum() / (n * (n - 2))
    square += weight**2 * (others.var(ddof=1) if m > 1 else every.var(ddof=1)) / m
    return rest.mean() + weight * others.mean(), math.sqrt(square), weight


@pytest.mark.parametrize("function", [pr.summarize, pr.compare, pr.stats.moments])
def test_the_column_of_probabilities_is_no_metric(function):
    random = np.random.default_rng(1)
    values = VALUES.select("run", "query", "x", p=pl.lit(0.5))
    predicted = PREDICTED.select("run", "query", "x", p=pl.Series(random.random(2 * (N + OTHERS))))
    options = {"predictions": predicted, "probability": "p", "run": "run"}
    options |= {"baseline": "a"} if function is pr.compare else {}
    assert function(values, **options)["metric"].unique().to_list() == ["x"]
    with pytest.raises(pr.errors.ArgumentError, match="'p' is used for both"):
        function(values, ["x", "p"], **options)


@pytest.mark.parametrize(("role", "column"), [("weight", "w"), ("cluster", "user")])
def test_a_query_has_the_same_weight_and_cluster_in_both_tables(role, column):
    changed = PREDICTED.with_columns(
        pl.when(pl.col("query") == 3).then(pl.lit(7)).otherwise(column).alias(column)
    )
    error = f"2 rows of `values` have another {role} in `predictions` \\(column '{column}'\\)"
    for values in (VALUES, VALUES.lazy()):
        with pytest.raises(pr.errors.DataError, match=error):
            result = pr.compare(values, "x", baseline="a", predictions=changed, **{role: column})
            result.lazy().collect()
    unknown = PREDICTED.with_columns(w=pl.lit(None, pl.Float64))
    with pytest.raises(pr.errors.DataError, match="null, negative, NaN or infinite weights"):
        pr.compare(VALUES, "x", baseline="a", weight="w", predictions=unknown)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_means_and_differences(engine):
    summary = pr.summarize(VALUES.lazy(), "x", predictions=PREDICTED.lazy()).collect(engine=engine)
    compared = pr.compare(VALUES.lazy(), "x", baseline="a", predictions=PREDICTED.lazy())
    compared = compared.collect(engine=engine)
    for row, mean, of in (
        (summary.filter(run="b").row(0, named=True), "mean", arrays()),
        (compared.row(0, named=True), "difference", arrays(baseline="a")),
    ):
        estimate, error, weight = expected(*of)
        half = scipy.stats.t.ppf(0.975, N - 2) * error
        assert row[mean] == pytest.approx(estimate, rel=1e-12)
        assert (row["low"], row["high"]) == pytest.approx((estimate - half, estimate + half))
        alone = of[0].std(ddof=1) / math.sqrt(N)
        numbers = (OTHERS, weight, N * alone**2 / error**2)
        assert [row[name] for name in COLUMNS] == pytest.approx(numbers)
    row = compared.row(0, named=True)
    assert row["p_value"] == pytest.approx(
        2
        * scipy.stats.t.sf(abs(row["difference"]) / (half / scipy.stats.t.ppf(0.975, N - 2)), N - 2)
    )
    # The difference has its own weight of the judge; the means add up.
    assert row["mean"] == pytest.approx(summary.filter(run="b")["mean"].item())
    assert row["mean"] - row["baseline_mean"] == pytest.approx(row["difference"])


def test_estimates_are_those_of_ppi_python():
    ppi = needs.package("ppi_py", "test")
    human, judge, others = arrays()
    row = pr.summarize(VALUES, "x", predictions=PREDICTED).filter(run="b").row(0, named=True)
    weight = row["judge_weight"]
    theirs = ppi.ppi_mean_pointestimate(human, judge, others)
    assert row["mean"] == pytest.approx(float(np.squeeze(theirs)), rel=1e-9)
    # With the divisors n and N, its standard error.
    low, high = ppi.ppi_mean_ci(human, judge, others, alpha=0.05, lam=weight)
    error = (np.squeeze(high) - np.squeeze(low)) / 2 / scipy.stats.norm.ppf(0.975)
    rest = human - weight * judge
    square = rest.var() / N + weight**2 * others.var() / OTHERS
    assert float(error) == pytest.approx(math.sqrt(square), rel=1e-9)
    corrected = rest.var() / (N - 2) + weight**2 * others.var(ddof=1) / OTHERS
    assert row["std_error"] == pytest.approx(math.sqrt(corrected), rel=1e-9)


def test_groups_may_be_columns_of_the_query():
    keys = {"by": "country", "query": ["country", "query"]}
    several = pr.summarize(VALUES, "x", predictions=PREDICTED, **keys)
    assert_frame_equal(several, pr.summarize(VALUES, "x", predictions=PREDICTED, by="country"))


@pytest.mark.parametrize("judge", ["constant", "opposite", "no others"])
def test_a_judge_that_says_nothing_leaves_the_human_values(judge):
    predictions = {
        "constant": PREDICTED.with_columns(x=0.5),
        "opposite": PREDICTED.with_columns(x=-pl.col("x")),
        "no others": PREDICTED.filter(pl.col("query") < N),
    }[judge]
    alone = pr.compare(VALUES, "x", baseline="a").row(0, named=True)
    row = pr.compare(VALUES, "x", baseline="a", predictions=predictions).row(0, named=True)
    for name in ("mean", "difference", "low", "high", "p_value"):
        assert row[name] == pytest.approx(alone[name], rel=1e-12)
    others = 0 if judge == "no others" else OTHERS
    assert [row[name] for name in COLUMNS] == pytest.approx([others, 0.0, N])


def test_weights_and_clusters_are_sums_of_influence_values():
    predictions = PREDICTED.filter(run="b")
    w, users = predictions["w"].to_numpy(), predictions["user"].to_numpy()
    human, judge, others = arrays()
    wh, wo = w[:N], w[N:]
    mean_h, mean_j, mean_o = (
        (weights * values).sum() / weights.sum()
        for weights, values in ((wh, human), (wh, judge), (wo, others))
    )
    covariance = (wh * (human - mean_h) * (judge - mean_j)).sum() / wh.sum()
    every = np.concatenate([judge, others])
    middle = (w * every).sum() / w.sum()
    total = N + OTHERS
    variance = (w * (every - middle) ** 2).sum() / w.sum() * total / (total - 1)
    weight = covariance / ((1 + N / OTHERS) * variance)
    row = pr.summarize(VALUES, "x", predictions=PREDICTED, weight="w", cluster="user")
    row = row.filter(run="b").row(0, named=True)
    assert row["judge_weight"] == pytest.approx(weight, rel=1e-12)
    assert row["mean"] == pytest.approx(mean_h - weight * (mean_j - mean_o), rel=1e-12)
    of_human = wh * (human - mean_h - weight * (judge - mean_j)) / wh.sum()
    of_others = weight * wo * (others - mean_o) / wo.sum()
    influence = np.bincount(users, weights=np.r_[of_human, of_others], minlength=60)
    plain = math.sqrt((influence**2).sum())
    # The correction for the numbers of clusters is between none and that of the human ones.
    sizes = np.bincount(users[:N], weights=wh)
    units = sizes.sum() ** 2 / (sizes**2).sum()
    assert plain < row["std_error"] < plain * math.sqrt(units / (units - 2))
    threes = [table.with_columns(w=pl.lit(3.0)) for table in (VALUES, PREDICTED)]
    equal = pr.summarize(threes[0], "x", predictions=threes[1], weight="w").drop("effective")
    assert_frame_equal(
        equal, pr.summarize(VALUES, "x", predictions=PREDICTED), check_exact=False, rel_tol=1e-9
    )
    with pytest.raises(pr.errors.DataError, match=r"64 rows of `values` have another weight"):
        pr.summarize(VALUES, "x", predictions=threes[1], weight="w")


def test_known_probabilities():
    # Queries of country 1 are judged three times as often; each has its own mean.
    random = np.random.default_rng(2)
    n = 3000
    country = np.arange(n) % 2
    x = random.random(n) + country
    judge = x + random.normal(0, 0.3, n)
    share = np.where(country == 1, 0.09, 0.03)
    human = random.random(n) < share
    every = pl.DataFrame({"query": range(n), "x": judge})
    some = pl.DataFrame({"query": np.arange(n)[human], "x": x[human], "p": share[human]})
    row = pr.summarize(some, "x", predictions=every, probability="p").row(0, named=True)
    w, h, j = 1 / share[human], x[human], judge[human]
    mean_h, mean_j = (w * h).sum() / w.sum(), (w * j).sum() / w.sum()
    weight = (w * (h - mean_h) * (j - mean_j)).sum() / (w * (j - mean_j) ** 2).sum()
    assert row["judge_weight"] == pytest.approx(weight, rel=1e-9)
    assert row["mean"] == pytest.approx(mean_h - weight * (mean_j - judge.mean()), rel=1e-9)
    assert row["low"] < x.mean() < row["high"]
    with pytest.warns(pr.errors.RankWarning, match="not a random sample of all"):
        biased = pr.summarize(some.drop("p"), "x", predictions=every).row(0, named=True)
    assert biased["mean"] > x.mean() or biased["low"] > row["low"]


@pytest.mark.parametrize("options", [{}, {"weight": "w", "cluster": "user"}])
def test_moments_of_parts_give_the_whole(options):
    parts = [
        pr.stats.moments(
            VALUES.filter(pl.col("user") % 3 == part), "x", baseline="a",
            predictions=PREDICTED.filter(pl.col("user") % 3 == part), **options,
        )
        for part in range(3)
    ]  # fmt: skip
    merged = pr.stats.merge(parts)
    close = {"check_exact": False, "rel_tol": 1e-9, "abs_tol": 1e-12}
    whole = pr.compare(VALUES, "x", baseline="a", predictions=PREDICTED, **options)
    assert_frame_equal(pr.compare(merged, baseline="a"), whole, **close)
    summary = pr.summarize(VALUES, "x", predictions=PREDICTED, **options)
    assert_frame_equal(pr.summarize(merged), summary, **close)


def test_slices_are_comparisons_of_their_queries():
    sliced = pr.slices(
        VALUES, "x", slices="country", baseline="a", min_queries=2, predictions=PREDICTED
    )
    for row in sliced.iter_rows(named=True):
        country = int(row["value"])
        alone = pr.compare(
            VALUES.filter(country=country), "x", baseline="a",
            predictions=PREDICTED.filter(country=country),
        ).row(0, named=True)  # fmt: skip
        for name in ("difference", "low", "high", "p_value", *COLUMNS):
            assert row[name] == pytest.approx(alone[name], rel=1e-12)


def hits(table, threshold=0.5):
    return table.select(
        "run", "query", "w", "user", (pl.col("x") > threshold).cast(pl.Float64).alias("hit_rate@10")
    )


def units_of_proportion(human, judge, others):
    """Return the effective number of units, with half a query for each kind of error."""
    n, (_, _, weight) = len(human), expected(human, judge, others)
    rest = human - weight * judge
    of_human = (human.var() * n + 0.5) / (n * (n - 1))
    of_rest = (rest.var() * n + 0.5 * (1 + weight**2)) / (n * (n - 2))
    return max(n, n * of_human / (of_rest + weight**2 * others.var(ddof=1) / len(others)))


def test_metrics_of_0_and_1_have_intervals_of_proportions():
    values, predictions = hits(VALUES), hits(PREDICTED)
    human, judge = (
        [table.filter(run=run)["hit_rate@10"].to_numpy() for run in "ab"]
        for table in (values, predictions)
    )
    row = pr.summarize(values, "hit_rate@10", predictions=predictions).row(1, named=True)
    p, error, _ = expected(human[1], judge[1][:N], judge[1][N:])
    assert (row["mean"], row["std_error"]) == pytest.approx((p, error))
    # Wilson's interval: the proportions q with |p - q| = t · sqrt(q(1 - q) / units).
    t, units = (
        scipy.stats.t.ppf(0.975, N - 2), units_of_proportion(human[1], judge[1][:N], judge[1][N:])
    )  # fmt: skip
    assert row["interval"] == "wilson"
    for q in (row["low"], row["high"]):
        assert abs(p - q) == pytest.approx(t * math.sqrt(q * (1 - q) / units))
    compared = pr.compare(values, "hit_rate@10", baseline="a", predictions=predictions)
    row = compared.row(0, named=True)
    human, judge = human[1] - human[0], judge[1] - judge[0]
    difference = expected(human, judge[:N], judge[N:])[0]
    units = units_of_proportion(human, judge[:N], judge[N:])
    share = (human.var() + difference**2) * units
    low, high = tango(
        (share + difference * units) / 2, (share - difference * units) / 2, units, 1.959963984540054
    )
    assert row["interval"] == "tango"
    by_t = pr.compare(values, "hit_rate@10", baseline="a", predictions=predictions, test="t")
    error = expected(human, judge[:N], judge[N:])[1]
    assert by_t["high"].item() == pytest.approx(difference + t * error)
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((difference, low, high))


@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}])
def test_a_constant_judge_leaves_intervals_of_proportions(options):
    values, constant = hits(VALUES), hits(PREDICTED).with_columns(pl.lit(1.0).alias("hit_rate@10"))
    for estimate, alone in (
        (pr.summarize(values, predictions=constant, metrics="hit_rate@10", **options),
         pr.summarize(values, "hit_rate@10", **options)),
        (pr.compare(values, "hit_rate@10", baseline="a", predictions=constant, **options),
         pr.compare(values, "hit_rate@10", baseline="a", **options)),
    ):  # fmt: skip
        columns = ["interval", "low", "high", "effective"]
        assert_frame_equal(estimate.select(columns), alone.select(columns))


def test_a_judge_without_errors_among_few_queries_is_not_taken_as_perfect():
    values = hits(PREDICTED).filter(pl.col("query") < 10)
    row = pr.summarize(values, "hit_rate@10", predictions=hits(PREDICTED)).row(0, named=True)
    by_t = pr.summarize(values, "hit_rate@10", predictions=hits(PREDICTED), interval="t")
    assert row["std_error"] == by_t["std_error"][0]
    assert row["high"] - row["low"] > 2 * (by_t["high"][0] - by_t["low"][0])
    # With known probabilities, values of single queries have no common variance.
    shares = values.with_columns(p=0.5)
    of_sample = pr.summarize(shares, "hit_rate@10", predictions=hits(PREDICTED), probability="p")
    assert {*of_sample["interval"]} == {"t"}


def test_undefined_values_that_are_skipped_belong_to_no_side():
    values = VALUES.with_columns(x=pl.when(pl.col("query") > 3).then("x"))
    row = pr.summarize(values, "x", predictions=PREDICTED, undefined="skip").row(0, named=True)
    assert (row["used"], row["predicted"]) == (N - 4, OTHERS)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p: p.filter(pl.col("query") > 3), pr.errors.DataError,
         r"no row for 8 rows of `values`, e.g. \{'run': 'a', 'query': 0\}"),
        (lambda p: pl.concat([p, p.filter(run="a").with_columns(run=pl.lit("z"))]), pr.errors.DataError,
         r"1 run of `predictions` not found in `values`, e.g. \{'run': 'z'\}"),
        (lambda p: pl.concat([p, p.head(2)]), pr.errors.DataError,
         "duplicate rankings in `predictions`: 'run', 'query'"),
        (lambda p: p.cast({"x": pl.String}), pr.errors.SchemaError,
         r"'x' \(`predictions`\) must be numeric; found String"),
        (lambda p: p.drop("x"), pr.errors.SchemaError, "'x' of `values` not found in"),
        (lambda p: p.with_columns(pl.col("query").cast(pl.String)), pr.errors.SchemaError,
         "'query' must have the same type .* Int64 and String"),
        (lambda p: p.with_columns(conventions=pl.lit("LightGBM")), pr.errors.DataError,
         "'LightGBM', and `values` those of 'polars_rank'"),
        (lambda p: 3, pr.errors.ArgumentError, "`predictions` must be a table"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_lazy", [True, False])
def test_predictions_that_do_not_fit(change, error, message, is_lazy):
    with pytest.raises(error, match=message):
        result = pr.compare(
            VALUES.lazy() if is_lazy else VALUES, "x", baseline="a", predictions=change(PREDICTED)
        )
        result.lazy().collect(engine="streaming")


@pytest.mark.parametrize("function", [pr.compare, pr.summarize, pr.stats.moments])
def test_human_values_without_labels_or_with_duplicates(function):
    baseline = {} if function is pr.summarize else {"baseline": "a"}
    with pytest.raises(pr.errors.DataError, match="`values` has no rows: no query has labels"):
        function(VALUES.clear(), "x", predictions=PREDICTED, **baseline)
    twice = pl.concat([VALUES, VALUES.head(2).with_columns(w=9.0)])
    with pytest.raises(pr.errors.DataError, match="4 rows: duplicate rankings: 'run', 'query'"):
        function(twice, "x", predictions=PREDICTED, **baseline)


def test_undefined_predicted_values_of_human_queries_are_warned_of():
    predictions = PREDICTED.with_columns(x=pl.when(pl.col("query") > 5).then("x"))
    with pytest.warns(pr.errors.RankWarning, match="12 human values do not count, e.g. of 'x'"):
        pr.compare(VALUES, "x", baseline="a", predictions=predictions)


@pytest.mark.parametrize("share", [0.0, 1.1, None])
def test_probabilities_outside_their_range(share):
    values = VALUES.with_columns(p=pl.lit(share, dtype=pl.Float64))
    with pytest.raises(pr.errors.DataError, match=r"80 rows: null .* outside \(0, 1\], .* 'p'"):
        pr.summarize(values, "x", predictions=PREDICTED, probability="p")
    with pytest.raises(pr.errors.ArgumentError, match="`probability` needs `predictions`"):
        pr.summarize(values, "x", probability="p")
    with pytest.raises(pr.errors.SchemaError, match=r"'q' \(`probability`\) not found"):
        pr.summarize(values, "x", predictions=PREDICTED, probability="q")
    with pytest.raises(pr.errors.SchemaError, match=r"'p' \(`probability`\) must be numeric"):
        pr.summarize(values.cast({"p": pl.String}), "x", predictions=PREDICTED, probability="p")


def test_what_predictions_do_not_support():
    with pytest.raises(pr.errors.ArgumentError, match="'auto' or 't'; found 'sign'"):
        pr.compare(VALUES, "x", baseline="a", predictions=PREDICTED, test="sign")
    with pytest.raises(pr.errors.ArgumentError, match="found 'bootstrap'"):
        pr.summarize(VALUES, "x", predictions=PREDICTED, interval="bootstrap")
    counts = [table.with_columns(num_rel=1.0) for table in (VALUES, PREDICTED)]
    with pytest.raises(pr.errors.ArgumentError, match="'num_rel' is a sum"):
        pr.summarize(counts[0], "num_rel", predictions=counts[1])
    moments = pr.stats.moments(VALUES, "x")
    with pytest.raises(pr.errors.ArgumentError, match="`predictions` needs per-query values"):
        pr.summarize(moments, predictions=PREDICTED)


def test_what_moments_with_predictions_do_not_support():
    moments = pr.stats.moments(VALUES, "x", run="run", baseline="a", predictions=PREDICTED)
    with pytest.raises(pr.errors.ArgumentError, match="`predictions` does not support `interval`"):
        pr.compare(moments, baseline="a", interval="sequence")
    with pytest.raises(pr.errors.ArgumentError, match="`predictions` needs `test` 'auto' or 't'"):
        pr.compare(moments, baseline="a", test="sign")
    with pytest.raises(pr.errors.ArgumentError, match="other intervals than .* found 'sequence'"):
        pr.summarize(moments, run="run", interval="sequence")
    with pytest.raises(pr.errors.ArgumentError, match="`predictions` does not support `quantiles`"):
        pr.summarize(moments, run="run", quantiles=[0.5])


def test_a_random_sample_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.compare(VALUES, "x", baseline="a", predictions=PREDICTED)


def test_gates_read_estimates():
    compared = pr.compare(VALUES, "x", baseline="a", predictions=PREDICTED)
    rules = ["difference(x) >= -0.5", f"predicted(x) >= {OTHERS}"]
    verdicts = pr.check(compared, rules)
    assert verdicts.select("where", "verdict").rows() == [("run=b", "pass")] * 2
    with pytest.warns(pr.errors.RankWarning, match="'relative_difference' has no interval"):
        pr.check(compared, ["relative_difference(x) >= -0.5"], undecided="pass")
    hits_ = pr.summarize(hits(VALUES), "hit_rate@10", predictions=hits(PREDICTED))
    verdict = pr.check(hits_, ["mean(hit_rate@10) >= 0.1"]).row(0, named=True)
    assert (verdict["low"], verdict["high"]) == hits_.select("low", "high").row(0)
    with pytest.raises(pr.errors.ArgumentError, match="'judge_weight', which has no confidence"):
        pr.check(compared, ["judge_weight(x) >= 0.5"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("x", math.nan, "1 row: NaN or infinite values in the column 'x' of `predictions`"),
     ("w", -1.0, "1 row: null, negative, NaN or infinite weights in the column 'w'")],
)  # fmt: skip
def test_invalid_numbers_of_other_queries(column, value, message):
    last = (pl.col("query") == N + OTHERS - 1) & (pl.col("run") == "b")
    floats = PREDICTED.with_columns(pl.col(column).cast(pl.Float64))
    invalid = floats.with_columns(pl.when(last).then(value).otherwise(column).alias(column))
    with pytest.raises(pr.errors.DataError, match=message):
        pr.compare(VALUES, "x", baseline="a", weight="w", predictions=invalid)
