"""Tests of `state.channels`: indexes of logs."""

from certigraph.state.channels import LogIndexes


class Counted:
    def __init__(self) -> None:
        self.entries: list[str] = []

    def add(self, entries: list[object]) -> None:
        self.entries += [str(entry) for entry in entries]


class Entry:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


def test_an_index_takes_in_only_what_was_added_and_a_fork_is_indexed_again():
    index_of, first, second, third, other = LogIndexes(Counted), *map(Entry, "abcd")
    index = index_of([first, second])
    assert index_of([first, second, third]) is index
    assert index.entries == ["a", "b", "c"]
    fork = index_of([first, other])
    assert fork is not index
    assert fork.entries == ["a", "d"]
    assert index_of([first, other, third, second]).entries == ["a", "d", "c", "b"]
    assert index_of([]).entries == []


def test_a_list_that_its_owner_extends_or_changes_is_indexed_as_it_is_now():
    index_of, first, second, third = LogIndexes(Counted), *map(Entry, "abc")
    log = [first]
    assert index_of(log).entries == ["a"]
    log.append(second)
    assert index_of(log).entries == ["a", "b"]
    log[1] = third
    assert index_of(log).entries == ["a", "c"]
