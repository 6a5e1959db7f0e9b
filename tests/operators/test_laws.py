"""The laws of `millpond.operators.contract`, for every kind of operator.

Cases are drawn by `kinds`, a life of a pond is run by `driver`. A law that fails names the kind, the script and the
epochs. `HYPOTHESIS_PROFILE=deep` tries many more cases; `-k PanesOperator` those of one kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from millpond.operators.registry import KINDS
from millpond.types.plan_nodes import PlanNode
from tests.operators.cases import Case, Epoch, arrivals
from tests.operators.driver import Driver
from tests.operators.kinds import ENTRIES, Answers, Entry
from tests.operators.planted import BYSTANDER, doomed_in, told, with_bystander
from tests.operators.shown import last_answers
from tests.oracle import assert_rows_equal
from tests.quick import many, quick_folder

Check = Callable[[Entry, st.DataObject], None]


def law(check: Check, entries: Sequence[Entry] = ENTRIES) -> Callable[[Entry], None]:
    """A test of a law, for every kind, with as many cases as each affords."""

    @pytest.mark.parametrize("entry", entries, ids=lambda entry: entry.kind.__name__)
    def test(entry: Entry) -> None:
        @many(0.7 * entry.share, entry.share, least=3)
        @given(st.data())
        def case(data: st.DataObject) -> None:
            check(entry, data)

        case()

    return test


SHARDS = st.sampled_from((1, 2))

#: The process that runs a task next: mostly the same one.
PROCESS = st.sampled_from((0, 0, 0, 1, 2))
OFTEN = st.sampled_from((False, True, True))

#: How far sums of doubles may be apart, absolutely.
FLOOR = 1e-6


def test_every_kind_has_an_entry() -> None:
    assert {entry.kind for entry in ENTRIES} == set(KINDS)


@st.composite
def limited(draw: st.DrawFn, entry: Entry) -> Case:
    """A case, of which little state may be needed."""
    case = draw(entry.cases)
    revise_for = draw(st.sampled_from((2, 1, 10, None)))
    return case if revise_for is None else case.limited(revise_for * case.unit)


@contextmanager
def driven(case: Case, shards: int) -> Iterator[Driver]:
    """A driver for one life."""
    note(case.script)
    with quick_folder() as folder:
        yield Driver(folder / "pond", case.script, shards)


def answers(entry: Entry, case: Case, epochs: Iterable[Epoch], shards: int) -> Answers:
    """The answers in the end, of a life without incidents."""
    with driven(case, shards) as driver:
        for epoch in epochs:
            driver.step(epoch)
        return ended(entry, driver)


def ended(entry: Entry, driver: Driver) -> Answers:
    """The answers when all streams have ended."""
    driver.finish()
    assert not driver.failures
    return entry.shown(driver)


def moved(driver: Driver, how: str, process: int) -> None:
    """Let another process go on, or the same with less in memory."""
    if how == "elsewhere":
        driver.elsewhere(process)
    elif how == "restarted":
        driver.restart()


def assert_same(expected: Answers, got: Answers) -> None:
    """AssertionError unless these are the same rows, in any order."""
    assert expected.keys() == got.keys()
    for what, rows in expected.items():
        assert_rows_equal(rows, got[what], floor=FLOOR, what=what)


@law
def test_cuts_and_order_make_no_difference(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(entry.cases), data.draw(SHARDS)
    epochs = data.draw(arrivals(case))
    assert_same(answers(entry, case, case.at_once, shards), answers(entry, case, epochs, shards))


@law
def test_answers_are_what_the_definitions_say(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(entry.cases), data.draw(SHARDS)
    expected, found = case.expected(), answers(entry, case, data.draw(arrivals(case)), shards)
    assert_same(expected, {name: found[name] for name in expected})


def law_of_the_past(check: Check) -> Callable[[Entry], None]:
    """A test of a law, for every kind whose past is made from the archive."""
    return law(check, [entry for entry in ENTRIES if entry.past])


@law_of_the_past
def test_back_fill_equals_live(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(entry.cases), data.draw(SHARDS)
    epochs = data.draw(arrivals(case))
    before = data.draw(st.integers(1, len(epochs)))
    with driven(case, shards) as driver:
        driver.compute_nothing()
        for epoch in epochs[:before]:
            driver.step(epoch)
        driver.catch_up()
        for epoch in epochs[before:]:
            driver.step(epoch)
        found = ended(entry, driver)
    assert_same(answers(entry, case, epochs, shards), found)


@law
def test_a_repetition_writes_the_same_bytes(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(limited(entry)), data.draw(SHARDS)
    epochs: Sequence[Epoch] = [*data.draw(arrivals(case)), {}]
    with driven(case, shards) as driver:
        for number, epoch in enumerate(epochs, 1):
            manifest = driver.plan(epoch, end=number == len(epochs), compact=data.draw(OFTEN))
            moved(driver, "elsewhere", data.draw(PROCESS))
            first, written = driver.run(manifest), driver.written()
            how = data.draw(st.sampled_from(("at once", "elsewhere", "restarted")))
            moved(driver, how, data.draw(PROCESS))
            again = driver.run(manifest)
            assert again.sent == first.sent, f"epoch {number}, {how}: map tasks"
            now = driver.written()
            assert now.keys() == written.keys(), f"epoch {number}, {how}: files"
            assert [n for n in now if now[n] != written[n]] == [], f"epoch {number}, {how}: files with other bytes"
            driver.publish(again)


@law
def test_compaction_restarts_and_lost_caches_change_nothing(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(limited(entry)), data.draw(SHARDS)
    epochs = data.draw(arrivals(case))
    with driven(case, shards) as driver:
        for epoch in epochs:
            how = data.draw(st.sampled_from(("elsewhere", "elsewhere", "restarted")))
            moved(driver, how, data.draw(PROCESS))
            driver.step(epoch, compact=data.draw(OFTEN), expire=data.draw(st.booleans()))
        found = ended(entry, driver)
    assert_same(answers(entry, case, epochs, shards), found)


@law
def test_what_is_not_needed_can_go(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(limited(entry)), data.draw(SHARDS)
    epochs = data.draw(arrivals(case))
    with driven(case, shards) as driver:
        for epoch in epochs:
            driver.step(epoch)
            driver.drop_unneeded()
            driver.restart()
        found = ended(entry, driver)
    assert_same(answers(entry, case, epochs, shards), found)


@law
def test_operators_explain_themselves_as_data(entry: Entry, data: st.DataObject) -> None:
    case, shards = data.draw(entry.cases), data.draw(SHARDS)
    with driven(case, shards) as driver:
        for epoch in data.draw(arrivals(case)):
            driver.step(epoch)
        before, facts = driver.written(), driver.plan_facts()
        operators = [o for o in driver.operators if isinstance(o, entry.kind)]
        found = [o.explain(facts, asker) for o in operators for asker in (None, *o.users())]
        streams = driver.catalog.streams.values()
        found += [plan for o in operators for s in streams if (plan := o.explain_stream(facts, s)) is not None]
        for query in driver.catalog.queries.values():
            asked = query.definition.query
            once, standing = (entry.kind.explain_query(facts, asked, each) for each in (None, query))
            assert (once is None) == (standing is None)
            if once is not None and standing is not None:
                assert (once.operator, once.title) == (standing.operator, standing.title)
                found += [once, standing]
        assert driver.written() == before
    for plan in found:
        assert PlanNode.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
        assert plan.operator and plan.title
        assert all(fact.name and fact.value for node in plan.nodes() for fact in node.facts)
        assert not any("\n" in line for line in plan.lines())


@law
def test_whatever_a_method_raises_fails_its_queries_and_nobody_elses(entry: Entry, data: st.DataObject) -> None:
    case, shards = with_bystander(data.draw(entry.cases)), data.draw(SHARDS)
    epochs = data.draw(arrivals(case))
    called: dict[str, set[str]] = {}
    with driven(case, shards) as driver:
        doomed = doomed_in(entry.kind, driver)
        with told(entry.kind, doomed, lambda name, owner: called.setdefault(name, set()).add(owner)):
            lived(driver, epochs)
        assert not driver.failures
        expected = last_answers(driver)[BYSTANDER]
    assume(called)  # the bystander may share all there is
    method = data.draw(st.sampled_from(sorted(called)))
    failing = set().union(*(doomed[owner] for owner in called[method]))

    def fault(name: str, owner: str) -> None:
        if name == method:
            raise RuntimeError("planted")

    with driven(case, shards) as driver, told(entry.kind, doomed, fault):
        lived(driver, epochs)
        assert driver.failures.keys() == failing, f"{method}: {driver.failures}"
        assert all("planted" in reason for reason in driver.failures.values())
        assert_same({BYSTANDER: expected}, {BYSTANDER: last_answers(driver)[BYSTANDER]})


def lived(driver: Driver, epochs: Iterable[Epoch]) -> None:
    """A whole life, in which state is put together and removed."""
    for epoch in epochs:
        driver.step(epoch, compact=True, expire=True)
    driver.finish()
