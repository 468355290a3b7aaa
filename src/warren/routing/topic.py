"""Topic exchanges: patterns of words, where `*` is one word and `#` any number of them.

A key is split on dots. The empty key has no words at all, while "a." has two, "a" and "". In a
pattern `*` stands for exactly one word (an empty one will do) and `#` for none or more; in a
published key both are words like any other.

Patterns are kept in a trie, one node per word, so that a search costs what the key is long and not
what the exchange has bindings. The naive search goes down the trie and, at a `#`, tries every
possible number of words in turn. Patterns such as `#.a.#.a.#.a` make that exponential, and whoever
may bind may then stall the broker. So the search is that of a regular expression without
backtracking: it reads the key once, word by word, holding the set of nodes that some reading of
the words so far can have reached.

    entering a node    also enters its `#` child, as `#` may stand for no words
    reading a word     from each held node enters the child for that word and the `*` child;
                       a `#` node, besides, stays held: it has swallowed the word
    after the last     every held node's destinations match

A node held is held once however many readings lead to it, so a search takes at most (words x
nodes) steps, far fewer in practice.

Removing a binding prunes the nodes that only it needed: an exchange whose bindings come and go
keeps the size of those it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination
from warren.routing.matcher import Destinations, count_in, count_out

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"


class _Node:
    __slots__ = ("any_words", "destinations", "is_any_words", "one_word", "words")

    def __init__(self, *, is_any_words: bool = False) -> None:
        self.is_any_words = is_any_words
        self.words: dict[str, _Node] = {}
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None
        self.destinations: Destinations = {}

    @property
    def is_empty(self) -> bool:
        has_children = self.words or self.one_word or self.any_words
        return not has_children and not self.destinations

    def child(self, word: str) -> _Node | None:
        if word == ONE_WORD:
            return self.one_word
        if word == ANY_WORDS:
            return self.any_words
        return self.words.get(word)

    def grow(self, word: str) -> _Node:
        child = _Node(is_any_words=word == ANY_WORDS)
        self._set_child(word, child)
        return child

    def prune(self, word: str) -> None:
        if word in (ONE_WORD, ANY_WORDS):
            self._set_child(word, None)
        else:
            del self.words[word]

    def _set_child(self, word: str, child: _Node | None) -> None:
        if word == ONE_WORD:
            self.one_word = child
        elif word == ANY_WORDS:
            self.any_words = child
        elif child is not None:
            self.words[word] = child


# An ordered set: a `#` node may both stay and be entered again.
_Held: TypeAlias = dict[_Node, None]


class TopicMatcher:
    def __init__(self) -> None:
        self._root = _Node()

    def add(self, binding: BindingRecord) -> None:
        node = self._root
        for word in _split(binding.routing_key):
            node = node.child(word) or node.grow(word)
        count_in(node.destinations, binding.destination)

    def remove(self, binding: BindingRecord) -> None:
        node = self._root
        path: list[tuple[_Node, str]] = []
        for word in _split(binding.routing_key):
            path.append((node, word))
            child = node.child(word)
            assert child is not None, "a binding was removed that had not been added"
            node = child
        count_out(node.destinations, binding.destination)
        for parent, word in reversed(path):
            if not node.is_empty:
                break
            parent.prune(word)
            node = parent

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        held: _Held = {}
        _enter(self._root, held)
        for word in _split(routing_key):
            held = _read(word, held)
            if not held:
                return ()
        return [destination for node in held for destination in node.destinations]

    @property
    def node_count(self) -> int:
        """How many nodes the trie has, its root included; to see that it does not grow."""
        count, rest = 0, [self._root]
        while rest:
            node = rest.pop()
            count += 1
            children = (*node.words.values(), node.one_word, node.any_words)
            rest.extend(child for child in children if child is not None)
        return count


def _split(key: str) -> list[str]:
    return key.split(".") if key else []


def _read(word: str, held: _Held) -> _Held:
    following: _Held = {}
    for node in held:
        if node.is_any_words:
            following[node] = None
        child = node.words.get(word)
        if child is not None:
            _enter(child, following)
        if node.one_word is not None:
            _enter(node.one_word, following)
    return following


def _enter(node: _Node | None, held: _Held) -> None:
    while node is not None:
        held[node] = None
        node = node.any_words
